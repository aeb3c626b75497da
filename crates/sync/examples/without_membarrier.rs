//! Runs a program for which `membarrier(2)` fails, with the errno that the first argument names.
//!
//! `cargo run -p fdtable-sync --example without_membarrier -- ENOSYS PROGRAM [ARGUMENTS]`
//!
//! ENOSYS is the answer of a kernel without the call, EPERM that of a container which filters it.
//! Children of the program have the filter too.

#[cfg(target_os = "linux")]
fn main() {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, exit};

    let mut words = std::env::args_os().skip(1);
    let errno = words.next().and_then(|name| match name.to_str() {
        Some("ENOSYS") => Some(libc::ENOSYS),
        Some("EPERM") => Some(libc::EPERM),
        _ => None,
    });
    let (Some(errno), Some(program)) = (errno, words.next()) else {
        eprintln!("usage: without_membarrier ENOSYS|EPERM PROGRAM [ARGUMENTS]");
        exit(2);
    };
    if let Err(error) = refuse_membarrier(errno) {
        eprintln!("without_membarrier: no filter of system calls: {error}");
        exit(2);
    }
    let error = Command::new(&program).args(words).exec();
    eprintln!("without_membarrier: {}: {error}", program.display());
    exit(2);
}

/// Installs a filter of system calls for the rest of the process.
#[cfg(target_os = "linux")]
fn refuse_membarrier(errno: libc::c_int) -> std::io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const NUMBER: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let filter = [
        step(LOAD, 0, NUMBER),
        step(IF_EQUAL, 1, libc::SYS_membarrier as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    let done = |status| match status {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: the call takes integers. Without new privileges a process may filter its own calls.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: the filter is alive for the call, which copies and does not write it.
    done(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) })
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("without_membarrier: only Linux has filters of system calls");
    std::process::exit(2);
}
