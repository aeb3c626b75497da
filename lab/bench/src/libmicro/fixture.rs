//! A process with the files of a case, and the batches of its threads.

use std::cell::RefCell;
use std::hint::black_box;
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, ensure};
use fdtable_vfs::event::Events;
use fdtable_vfs::{Errno, FdSet, OpenFlags, PollFd};

use super::batch::{self, Batch, Step};
use super::case::{BUFFERS, Case, Named, Sharing, Work};
use crate::calls::Calls;

/// Limit of descriptors of a table: more than are ever open.
const LIMIT: u32 = 1 << 16;

/// Descriptors from here on are never open.
const NOT_OPEN: RawFd = 1 << 15;

/// A table that can be measured in a case.
pub(super) trait Subject {
    /// Name of the table.
    fn name(&self) -> &'static str;

    /// Makes the calls for about `length`, and returns the nanoseconds per call and busy CPU.
    fn turn(&self, length: Duration) -> anyhow::Result<f64>;
}

/// Process that is prepared for a case.
struct Fixture<C> {
    process: C,
    case: Case,
    /// Files of each thread, or of all of them.
    targets: Vec<Targets>,
}

/// The files on which a thread makes its calls.
#[derive(Default)]
struct Targets {
    path: String,
    /// A file, or the reading end of a pipe.
    fd: RawFd,
    /// The writing end of a pipe.
    other: RawFd,
    sockets: Vec<RawFd>,
}

/// Descriptors that one step of a batch passes to another.
type Fds = Rc<RefCell<Vec<RawFd>>>;

/// Prepares a process for a case.
///
/// # Errors
/// If a call returns a wrong result.
pub(super) fn subject<C: Calls>(case: Case) -> anyhow::Result<Box<dyn Subject>> {
    let process = C::with_limit(LIMIT)?;
    process.names().mkdir("/tmp")?;
    let count = match case.files {
        Sharing::Shared => 1,
        Sharing::Private => case.threads,
    };
    let targets = (0..count).map(|nth| targets(&process, case, nth));
    let targets = targets
        .collect::<Result<_, Errno>>()
        .with_context(|| format!("{}: {}", C::NAME, case.name))?;
    Ok(Box::new(Fixture {
        process,
        case,
        targets,
    }))
}

/// Creates the files of the `nth` thread.
fn targets<C: Calls>(process: &C, case: Case, nth: usize) -> Result<Targets, Errno> {
    let file = |named| {
        let path = match named {
            Named::Tmp => format!("/tmp/data{nth}"),
            Named::Zero => "/dev/zero".to_owned(),
            Named::Null => "/dev/null".to_owned(),
        };
        if named == Named::Tmp {
            write_file(process, &path, length(case))?;
        }
        let fd = process.open(&path, OpenFlags::RDWR)?;
        Ok(Targets {
            path,
            fd,
            ..Targets::default()
        })
    };
    let ends = |(fd, other)| Targets {
        fd,
        other,
        ..Targets::default()
    };
    match case.work {
        Work::CloseBad | Work::SocketPair => Ok(Targets::default()),
        Work::Dup => file(Named::Null),
        Work::GetStatus | Work::GetFlags | Work::Seek(_) => file(Named::Tmp),
        Work::Close(named) | Work::Open(named) => file(named),
        Work::Read(named, _) | Work::Write(named, _) | Work::Writev(named, _) => file(named),
        Work::ReadAt(named, _) | Work::WriteAt(named, _) => file(named),
        Work::Pipe(_) => process.pipe().map(ends),
        Work::Sockets(_) => process.socketpair().map(ends),
        Work::Poll(count) | Work::Select(count) => {
            let mut sockets = Vec::new();
            for _ in 0..count / 2 {
                let (one, other) = process.socketpair()?;
                sockets.extend([one, other]);
            }
            Ok(Targets {
                sockets,
                ..Targets::default()
            })
        }
    }
}

/// Returns the length of a file: no thread reaches the end before a thread seeks to the start, even
/// if all threads that share the file make a batch of calls each.
fn length(case: Case) -> usize {
    let batch = case.work.bytes() * case.work.calls();
    match case.files {
        Sharing::Private => batch,
        Sharing::Shared => batch * case.threads,
    }
}

fn write_file<C: Calls>(process: &C, path: &str, length: usize) -> Result<(), Errno> {
    let fd = process.open(path, OpenFlags::CREAT | OpenFlags::WRONLY)?;
    process.write(fd, &vec![1; length])?;
    process.close(fd)
}

impl<C: Calls> Subject for Fixture<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn turn(&self, length: Duration) -> anyhow::Result<f64> {
        let case = self.case;
        let ns = batch::turn(case.threads, length, &|nth| self.batch(nth))?;
        ensure!(ns.is_finite(), "{}: {} did not work", C::NAME, case.name);
        Ok(ns)
    }
}

impl<C: Calls> Fixture<C> {
    /// Returns the batch of the `nth` thread.
    fn batch(&self, nth: usize) -> Batch<'_> {
        let targets = &self.targets[nth % self.targets.len()];
        let process = &self.process;
        let Targets { ref path, fd, .. } = *targets;
        let open = move || process.open(black_box(path), OpenFlags::RDONLY);
        match self.case.work {
            Work::Open(_) => self.opening_batch(move |made| {
                made.push(open().ok()?);
                Some(())
            }),
            Work::Dup => self.opening_batch(move |made| {
                made.push(process.dup(black_box(fd)).ok()?);
                Some(())
            }),
            Work::SocketPair => self.opening_batch(move |made| {
                let (one, other) = process.socketpair().ok()?;
                made.extend([one, other]);
                Some(())
            }),
            Work::Close(_) => self.closing_batch(move || open().ok()),
            _ => Batch {
                calls: self.case.work.calls(),
                timed: self.step(targets),
                around: None,
            },
        }
    }

    /// Returns a batch of calls that open descriptors, which are closed outside of the timing.
    fn opening_batch<'a>(&'a self, make: impl Fn(&mut Vec<RawFd>) -> Option<()> + 'a) -> Batch<'a> {
        let (made, again) = fds();
        let calls = self.case.work.calls();
        let timed = move || {
            let mut made = made.borrow_mut();
            (0..calls).try_for_each(|_| make(&mut made))
        };
        Batch {
            calls,
            timed: Box::new(timed),
            around: Some((Box::new(|| Some(())), self.closing(again))),
        }
    }

    /// Returns a batch of calls that close descriptors, which are opened outside of the timing.
    fn closing_batch<'a>(&'a self, open: impl Fn() -> Option<RawFd> + 'a) -> Batch<'a> {
        let (made, again) = fds();
        let calls = self.case.work.calls();
        let before = move || {
            let mut made = made.borrow_mut();
            made.extend((0..calls).map_while(|_| open()));
            (made.len() == calls).then_some(())
        };
        Batch {
            calls,
            timed: self.closing(again),
            around: Some((Box::new(before), Box::new(|| Some(())))),
        }
    }

    /// Returns a step that closes all opened descriptors.
    fn closing(&self, made: Fds) -> Step<'_> {
        let process = &self.process;
        let close = |fd| process.close(black_box(fd)).ok();
        Box::new(move || made.borrow_mut().drain(..).try_for_each(close))
    }

    /// Returns a step of calls that leave no descriptor open.
    fn step<'a>(&'a self, targets: &'a Targets) -> Step<'a> {
        let Fixture { process, case, .. } = self;
        let Targets { fd, other, .. } = *targets;
        let calls = case.work.calls();
        match case.work {
            Work::CloseBad => repeat(calls, move |nth| {
                let fd = black_box(NOT_OPEN + nth as RawFd);
                process.close(fd) == Err(Errno::EBADF)
            }),
            Work::GetStatus => repeat(calls, move |_| process.status(black_box(fd)).is_ok()),
            Work::GetFlags => repeat(calls, move |_| process.get_flags(black_box(fd)).is_ok()),
            Work::Seek(far) => repeat(calls, move |nth| {
                let to = if nth % 2 == 0 { 0 } else { far };
                process.seek(black_box(fd), to) == Ok(to)
            }),
            Work::Read(_, bytes) => {
                let mut buf = vec![0; bytes];
                rewinding(process, fd, calls, move |fd| {
                    process.read(fd, &mut buf) == Ok(bytes)
                })
            }
            Work::Write(_, bytes) => {
                let buf = vec![1; bytes];
                rewinding(process, fd, calls, move |fd| {
                    process.write(fd, &buf) == Ok(bytes)
                })
            }
            Work::Writev(_, bytes) => {
                let buf = vec![1; bytes];
                rewinding(process, fd, calls, move |fd| {
                    let bufs = [IoSlice::new(&buf); BUFFERS];
                    process.writev(fd, &bufs) == Ok(bytes * BUFFERS)
                })
            }
            Work::ReadAt(_, bytes) => {
                let mut buf = vec![0; bytes];
                repeat(calls, move |_| {
                    process.pread(black_box(fd), &mut buf, 0) == Ok(bytes)
                })
            }
            Work::WriteAt(_, bytes) => {
                let buf = vec![1; bytes];
                repeat(calls, move |_| {
                    process.pwrite(black_box(fd), &buf, 0) == Ok(bytes)
                })
            }
            Work::Pipe(bytes) | Work::Sockets(bytes) => {
                let mut buf = vec![1; bytes];
                repeat(calls, move |_| {
                    process.write(black_box(other), &buf) == Ok(bytes)
                        && process.read(black_box(fd), &mut buf) == Ok(bytes)
                })
            }
            Work::Poll(_) => {
                let asked = targets
                    .sockets
                    .iter()
                    .map(|&fd| PollFd::new(fd, Events::IN));
                let mut asked: Vec<_> = asked.collect();
                repeat(calls, move |_| process.poll(black_box(&mut asked)) == Ok(0))
            }
            Work::Select(_) => {
                let (mut asked, mut set) = (FdSet::new(), FdSet::new());
                targets.sockets.iter().for_each(|&fd| asked.insert(fd));
                let nfds = targets.sockets.iter().max().map_or(0, |fd| fd + 1);
                repeat(calls, move |_| {
                    set.clone_from(&asked);
                    process.select(nfds, black_box(&mut set)) == Ok(0)
                })
            }
            Work::Close(_) | Work::Dup | Work::Open(_) | Work::SocketPair => {
                unreachable!("these leave descriptors open")
            }
        }
    }
}

/// Makes a list of descriptors that two steps share.
fn fds() -> (Fds, Fds) {
    let made = Rc::new(RefCell::new(Vec::with_capacity(256)));
    (Rc::clone(&made), made)
}

/// Repeats a call.
fn repeat<'a>(calls: usize, mut call: impl FnMut(usize) -> bool + 'a) -> Step<'a> {
    Box::new(move || (0..calls).all(&mut call).then_some(()))
}

/// Makes calls along a file, from its start.
fn rewinding<'a, C: Calls>(
    process: &'a C,
    fd: RawFd,
    calls: usize,
    mut call: impl FnMut(RawFd) -> bool + 'a,
) -> Step<'a> {
    Box::new(move || {
        process.seek(fd, 0).ok()?;
        (0..calls).all(|_| call(black_box(fd))).then_some(())
    })
}

#[cfg(test)]
mod tests {
    use fdtable_vfs::Process;

    use super::super::case;
    use super::*;

    #[test]
    fn every_batch_leaves_the_table_as_it_was() {
        for case in case::all(2) {
            let process = Process::with_limit(LIMIT).unwrap();
            process.names().mkdir("/tmp").unwrap();
            let fixture = Fixture {
                targets: vec![targets(&process, case, 0).unwrap()],
                process,
                case,
            };
            let open = fixture.process.files().open_count();
            let mut batch = fixture.batch(0);
            for _ in 0..2 {
                if let Some((before, _)) = &mut batch.around {
                    before().unwrap();
                }
                (batch.timed)().unwrap();
                if let Some((_, after)) = &mut batch.around {
                    after().unwrap();
                }
            }
            drop(batch);
            assert_eq!(fixture.process.files().open_count(), open, "{}", case.name);
        }
    }
}
