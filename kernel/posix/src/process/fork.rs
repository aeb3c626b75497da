//! Forks of the program: processes that share one kernel, each with its own memory.

use std::ffi::c_int;
use std::mem;

use fdtable::FileRef;
use fdtable_shm::Mutex;
use fdtable_vfs::{CloneFlags, Errno, RcuObject};

use crate::abi::boot::system;
use crate::abi::guard::{guarded, inside};
use crate::abi::routing::Routes;
use crate::host::{self, fd, in_use};
use crate::process::supervisor;
use crate::process::tree::{self, Member, OWN, TREE};

/// A process that is about to be made by a fork of the host process. Dropped in the parent before
/// that, nothing is left of it.
pub struct Child {
    name: u32,
    member: &'static Member,
    /// References of the child's copy of this memory: its working directory, and its program.
    _files: [Option<FileRef<RcuObject>>; 2],
}

impl Child {
    /// Makes the child of this process: with the same open files, in a table of its own or in the
    /// same one.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn prepare(flags: CloneFlags) -> Result<Self, Errno> {
        guarded(|| {
            let system = system();
            let member = Member::leaked(system.process.clone_with(flags)?);
            let name = TREE.lock().add(0, fdtable_shm::process(), member);
            fdtable_shm::name_child(name);
            let here = system.routes.load().here().cloned();
            let executable = Option::clone(&system.executable.load());
            Ok(Child {
                name,
                member,
                _files: [here, executable],
            })
        })
    }

    /// Becomes the child, after the fork.
    pub fn begin(self) {
        inside(|| {
            OWN.store(Some(self.member));
            in_use::after_fork();
            system().become_process(&self.member.process);
            // A supervisor that traces has noted it, and knows it better: a completion process has
            // another id.
            if !supervisor::is_traced() {
                TREE.lock().set_id(self.name, host::process_id());
            }
        });
        mem::forget(self);
    }

    /// Leaves it to the child with this id, in the parent after the fork.
    pub fn leave_to(self, id: c_int) {
        inside(|| {
            fdtable_shm::name_child(0);
            // The child may have ended, and its entry with it.
            TREE.lock().set_id(self.name, id);
        });
        // It may have ended before it could do that itself.
        supervisor::see(id, self.name);
        mem::forget(self);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let name = self.name;
        fdtable_shm::name_child(0);
        inside(|| {
            let process = TREE.lock().take(name);
            // SAFETY: no process was made that could use it.
            process
                .into_iter()
                .for_each(|process| unsafe { tree::free(process) });
        });
    }
}

/// Held while the table of this process is replaced, and while a thread that is not the program's
/// uses it.
pub(crate) static UNSHARING: Mutex<()> = Mutex::new(());

/// Gives this process a table of its own, with the same files, if another process shares its table.
///
/// # Errors
/// `EINVAL` if the process has other threads; `ENOMEM`.
pub(crate) fn unshare_files() -> Result<(), Errno> {
    let Some(before) = OWN.load().filter(|member| member.process.shares_files()) else {
        return Ok(());
    };
    if !fd::is_alone() {
        return Err(Errno::EINVAL);
    }
    let _alone = UNSHARING.lock();
    let system = system();
    let member = Member::leaked(before.process.clone_with(CloneFlags::empty())?);
    let name = fdtable_shm::process();
    let mut tree = TREE.lock();
    let entry = tree.entries.iter_mut().find(|entry| entry.name == name);
    if let Some(entry) = entry {
        entry.member = member;
    }
    drop(tree);
    OWN.store(Some(member));
    system.become_process(&member.process);
    // SAFETY: this thread is the only one of the program in the process, others hold the lock, and
    // it does not use it any more; it is not in the tree.
    unsafe { tree::free(before) };
    Ok(())
}

/// Closes all descriptors of this process, which is about to end.
pub fn end() {
    inside(|| {
        let system = system();
        system.executable.store(None);
        system.routes.store(Routes::new(Vec::new()));
        system.process.end();
    });
}
