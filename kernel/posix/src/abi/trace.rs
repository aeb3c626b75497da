//! Messages about the routing of paths on standard error, if `FDT_VERBOSE` is set.

use std::collections::HashSet;
use std::env;

use fdtable_shm::Mutex;

use crate::host;
use crate::host::direct::Wait;

/// Writes the messages.
#[derive(Default)]
pub(crate) struct Trace {
    /// Host paths that were written already.
    known: Mutex<HashSet<Vec<u8>>>,
}

impl Trace {
    /// Returns `None` if the variable is not set, empty or `0`.
    pub(crate) fn of_environment() -> Option<Self> {
        let value = env::var_os("FDT_VERBOSE")?;
        let is_on = !value.is_empty() && value != "0";
        is_on.then(Trace::default)
    }

    /// Tells of a mount of the environment.
    pub(crate) fn mount(&self, path: &[u8]) {
        write(b"mount", path);
    }

    /// Tells of a path that is the host's, the first time.
    #[cold]
    pub(crate) fn host_path(&self, path: &[u8]) {
        let is_new = self.known.lock().insert(path.to_vec());
        if is_new {
            write(b"host path", path);
        }
    }
}

/// Writes a line to the host's standard error. An error has no receiver.
pub(crate) fn write(what: &[u8], path: &[u8]) {
    let line = [b"fdtable: ".as_slice(), what, b": ", path, b"\n"].concat();
    let _ = host::write(libc::STDERR_FILENO, Wait::Possible, &line);
}
