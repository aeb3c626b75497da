//! Embedding the table in a kernel, a host or a server: a guide with examples.
//!
// The guide is `docs/guide.md`, so that it can be read in the repository too. There its links lead
// to files. Here these definitions come first, and the first definition of a label counts. They
// lead to items, and rustdoc checks them.
//! [library OS]: <https://docs.rs/crate/fdtable/latest/source/examples/library_os.rs>
//! [async server]: <https://docs.rs/crate/fdtable/latest/source/examples/async_server.rs>
//! [tokio_echo]: <https://docs.rs/crate/fdtable/latest/source/examples/tokio_echo.rs>
//! [WASI host]: <https://docs.rs/crate/fdtable/latest/source/examples/wasi_host.rs>
//! [leaks]: <https://docs.rs/crate/fdtable-listing/latest/source/examples/leaks.rs>
//! [passing]: <https://docs.rs/crate/fdtable-interests/latest/source/examples/passing.rs>
//! [`BorrowedFile`]: crate::BorrowedFile
//! [`ClosedFile`]: crate::ClosedFile
//! [`ClosedFiles`]: crate::ClosedFiles
//! [`Error`]: crate::Error
//! [`Error::errno`]: crate::Error::errno
//! [`Fd`]: crate::Fd
//! [`FdFlags`]: crate::FdFlags
//! [`FileBuilder`]: crate::FileBuilder
//! [`FileBuilder::on_release`]: crate::FileBuilder::on_release
//! [`FileRef`]: crate::FileRef
//! [`FileRef::downcast_by`]: crate::FileRef::downcast_by
//! [`FileRef::into_dyn`]: crate::FileRef::into_dyn
//! [`FileRef::new`]: crate::FileRef::new
//! [`FileRef::new_dyn`]: crate::FileRef::new_dyn
//! [`FileRef::new_dyn_rcu`]: crate::FileRef::new_dyn_rcu
//! [`FileRef::new_rcu`]: crate::FileRef::new_rcu
//! [`FileRef::revoke`]: crate::FileRef::revoke
//! [`Files`]: crate::Files
//! [`Files::block`]: crate::Files::block
//! [`Files::close`]: crate::Files::close
//! [`Files::close_on_exec`]: crate::Files::close_on_exec
//! [`Files::close_range`]: crate::Files::close_range
//! [`Files::dup`]: crate::Files::dup
//! [`Files::dup2`]: crate::Files::dup2
//! [`Files::dup3`]: crate::Files::dup3
//! [`Files::dup_min`]: crate::Files::dup_min
//! [`Files::fd_flags`]: crate::Files::fd_flags
//! [`Files::fork`]: crate::Files::fork
//! [`Files::fork_keeping`]: crate::Files::fork_keeping
//! [`Files::get`]: crate::Files::get
//! [`Files::get_rcu`]: crate::Files::get_rcu
//! [`Files::iter_from`]: crate::Files::iter_from
//! [`Files::limit`]: crate::Files::limit
//! [`Files::open`]: crate::Files::open
//! [`Files::open_any`]: crate::Files::open_any
//! [`Files::open_pair`]: crate::Files::open_pair
//! [`Files::poll_until_free`]: crate::Files::poll_until_free
//! [`Files::refers_to`]: crate::Files::refers_to
//! [`Files::reserve`]: crate::Files::reserve
//! [`Files::reserve_many`]: crate::Files::reserve_many
//! [`Files::set_cloexec_range`]: crate::Files::set_cloexec_range
//! [`Files::set_fd_flags`]: crate::Files::set_fd_flags
//! [`Files::set_limit`]: crate::Files::set_limit
//! [`Files::set_quarantine`]: crate::Files::set_quarantine
//! [`PrivateFiles`]: crate::PrivateFiles
//! [`Rcu`]: crate::Rcu
//! [`Reservation`]: crate::Reservation
//! [`Reservations`]: crate::Reservations
//! [`SuperBlock`]: crate::SuperBlock
//! [`WeakFile`]: crate::WeakFile
//! [`host_fork`]: crate::host_fork
//! [`install`]: crate::Reservation::install
//! [`lifetimes`]: crate::lifetimes
//! [`rcu::barrier`]: crate::rcu::barrier
//! [`rcu::qsbr`]: crate::rcu::qsbr
//! [`rcu::read_lock`]: crate::rcu::read_lock
//! [`upgrade`]: crate::WeakFile::upgrade
//!
#![doc = include_str!("../guide.md")]

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    /// Returns the definitions of links in a text, whose lines begin with `prefix`.
    fn links<'t>(text: &'t str, prefix: &str) -> BTreeMap<&'t str, &'t str> {
        let definitions = text.lines().filter_map(|line| line.strip_prefix(prefix));
        definitions
            .filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
            .filter(|(_, target)| !target.contains(' '))
            .collect()
    }

    #[test]
    fn every_link_leads_to_a_file_in_the_repository_and_elsewhere_in_the_documentation() {
        let there = links(include_str!("../guide.md"), "");
        let here = links(include_str!("guide.rs"), "//! ");
        assert!(there.keys().eq(here.keys()), "the same labels");
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        // A published package has no other files of the repository.
        if docs.is_dir() {
            let missing = there.values().find(|file| !docs.join(file).is_file());
            assert_eq!(missing, None);
        }
    }
}
