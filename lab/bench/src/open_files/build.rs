//! The jobs of a compilation: `make -j` as a file system sees it.
//!
//! Each compilation reads a source and some of the common headers, and writes an object file beside
//! the source. A file is opened, described, read to its end and closed, as compilers do. Most
//! operations are opens and closes of the same few hundred files by all jobs.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use fastrand::Rng;
use fdtable::Files;
use fdtable_vfs::{Errno, MemFs, OpenFlags, Process};

use super::outcome::{Outcome, Tally, Until};
use super::workers::{self, FailureFlag};

/// Sources of a directory.
const DIRECTORY: usize = 32;

/// Bytes that a compiler reads at a time.
const READ: usize = 32 << 10;

/// Size of a compilation.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Compilations at a time, each on a thread of its own, at least 1.
    pub jobs: usize,
    /// Number of headers, at least 1.
    pub headers: usize,
    /// Headers that each compilation reads, at most all.
    pub headers_of_each: usize,
    /// Number of sources, at least 1. Jobs start again when all are compiled.
    pub sources: usize,
    /// Bytes of a header.
    pub header_bytes: usize,
    /// Bytes of a source.
    pub source_bytes: usize,
    /// Bytes of an object file.
    pub object_bytes: usize,
}

impl Default for Build {
    /// A large program in C: 16 jobs, of which each compilation reads 60 of 400 headers.
    fn default() -> Self {
        Build {
            jobs: 16,
            headers: 400,
            headers_of_each: 60,
            sources: 1024,
            header_bytes: 4 << 10,
            source_bytes: 16 << 10,
            object_bytes: 48 << 10,
        }
    }
}

/// One job of `make`.
struct Job<'a> {
    build: &'a Build,
    process: Process,
    /// Generator of the order of headers: another order for each compilation, the same ones in each
    /// run.
    random: Rng,
    headers: Vec<String>,
    buffer: Vec<u8>,
    tally: Tally,
}

/// Compiles on `fs`, in the directories `/include` and `/source`, which are created if they do not
/// exist. The operations of the outcome are compilations. Blocks until all jobs are done.
///
/// # Errors
/// If a size is invalid, an operation fails, or a thread cannot be created.
///
/// ```
/// use std::sync::Arc;
/// use fdtable_bench::open_files::{Build, Until, build};
///
/// let small = Build { jobs: 2, headers: 10, headers_of_each: 5, ..Build::default() };
/// let outcome = build(&small, &Arc::default(), Until::Passes(3))?;
/// // A source, an object file and five headers for each compilation.
/// assert_eq!((outcome.operations, outcome.opens), (6, 6 * 7));
/// # Ok::<(), anyhow::Error>(())
/// ```
pub fn build(build: &Build, fs: &Arc<MemFs>, until: Until) -> anyhow::Result<Outcome> {
    until.check()?;
    build.check()?;
    build.write_sources(fs)?;
    let prepare = |place| (place, Job::new(build, place, fs));
    workers::run(build.jobs, fs, prepare, |(place, job), failure| {
        job.work(place, until, failure)
            .with_context(|| format!("job {place}"))
    })
}

impl Build {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.jobs > 0 && self.headers > 0 && self.sources > 0,
            "a build needs one of each"
        );
        ensure!(
            self.headers_of_each <= self.headers,
            "a compilation cannot read {} of {} headers",
            self.headers_of_each,
            self.headers
        );
        Ok(())
    }

    /// Writes all headers and sources.
    fn write_sources(&self, fs: &Arc<MemFs>) -> anyhow::Result<()> {
        let mut author = Job::new(self, 0, fs);
        for directory in ["/include".to_owned(), "/source".to_owned()]
            .into_iter()
            .chain((0..self.sources.div_ceil(DIRECTORY)).map(|nth| format!("/source/{nth}")))
        {
            match fs.mkdir(&directory) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno).context(directory),
            }
        }
        for nth in 0..self.headers {
            author.write(&header(nth), self.header_bytes)?;
        }
        for nth in 0..self.sources {
            author.write(&source(nth, "c"), self.source_bytes)?;
        }
        Ok(())
    }
}

impl<'a> Job<'a> {
    fn new(build: &'a Build, place: usize, fs: &Arc<MemFs>) -> Self {
        let longest = READ.max(build.object_bytes).max(build.source_bytes);
        Job {
            build,
            process: Process::with(Files::new(), Arc::clone(fs)),
            random: Rng::with_seed(place as u64),
            headers: (0..build.headers).map(header).collect(),
            buffer: vec![1; longest.max(build.header_bytes)],
            tally: Tally::default(),
        }
    }

    /// Compiles until the end of the turn.
    fn work(mut self, place: usize, until: Until, failure: &FailureFlag) -> anyhow::Result<Tally> {
        let began = Instant::now();
        let mut passes = 0;
        let mut next = place;
        while until.goes_on(passes, began) && !failure.is_raised() {
            self.compile(next % self.build.sources)?;
            next += self.build.jobs;
            passes = passes.saturating_add(1);
        }
        Ok(self.tally)
    }

    fn compile(&mut self, nth: usize) -> anyhow::Result<()> {
        self.read(&source(nth, "c"))?;
        for place in 0..self.build.headers_of_each {
            // The next of a random order.
            let other = self.random.usize(place..self.headers.len());
            self.headers.swap(place, other);
            let header = std::mem::take(&mut self.headers[place]);
            self.read(&header)?;
            self.headers[place] = header;
        }
        self.write(&source(nth, "o"), self.build.object_bytes)?;
        self.tally.operations += 1;
        Ok(())
    }

    /// Reads a file to its end, as given by its size.
    fn read(&mut self, path: &str) -> anyhow::Result<()> {
        let fd = self
            .process
            .open(path, OpenFlags::RDONLY)
            .with_context(|| path.to_owned())?;
        self.tally.opens += 1;
        let size = self.process.fstat(fd)?.size;
        let mut bytes = 0;
        loop {
            match self.process.read(fd, &mut self.buffer[..READ])? {
                0 => break,
                count => bytes += count as u64,
            }
        }
        ensure!(
            bytes == size,
            "{path} has {size} bytes, but {bytes} were read"
        );
        self.process.close(fd)?;
        self.tally.closes += 1;
        self.tally.bytes += bytes;
        Ok(())
    }

    /// Writes a new file, or replaces an existing one.
    fn write(&mut self, path: &str, bytes: usize) -> anyhow::Result<()> {
        let flags = OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::TRUNC;
        let fd = self
            .process
            .open(path, flags)
            .with_context(|| path.to_owned())?;
        self.tally.opens += 1;
        let written = self.process.write(fd, &self.buffer[..bytes])?;
        ensure!(written == bytes, "{path} took {written} of {bytes} bytes");
        self.process.close(fd)?;
        self.tally.closes += 1;
        self.tally.bytes += written as u64;
        Ok(())
    }
}

fn header(nth: usize) -> String {
    format!("/include/{nth}.h")
}

fn source(nth: usize, extension: &str) -> String {
    format!("/source/{}/{nth}.{extension}", nth / DIRECTORY)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SMALL: Build = Build {
        jobs: 4,
        headers: 8,
        headers_of_each: 8,
        sources: 50,
        header_bytes: 100,
        source_bytes: 40_000,
        object_bytes: 5_000,
    };

    #[test]
    fn every_compilation_reads_its_headers_and_writes_an_object() {
        let fs = Arc::default();
        let outcome = build(&SMALL, &fs, Until::Passes(20)).unwrap();
        assert_eq!(outcome.operations, 80);
        assert_eq!((outcome.opens, outcome.closes), (80 * 10, 80 * 10));
        assert_eq!(outcome.bytes, 80 * (8 * 100 + 40_000 + 5_000));
        // 80 compilations of 50 sources: every one has its object.
        assert_eq!(fs.stat("/source/0").unwrap().size, 64);
        assert_eq!(fs.stat("/source/1").unwrap().size, 36);
        assert_eq!(fs.stat("/source/1/49.o").unwrap().size, 5_000);
    }

    #[test]
    fn the_lists_count_the_opens_of_the_jobs_alone() {
        let outcome = build(&SMALL, &Arc::default(), Until::Passes(20)).unwrap();
        let lists = outcome.lists.expect("a file system has lists");
        assert_eq!((lists.joined, lists.left), (80 * 10, 80 * 10));
        assert!(lists.left_same_cpu <= lists.left_same_node && lists.left_same_node <= lists.left);
    }

    #[test]
    fn without_lists_nothing_is_counted() {
        let bare = Arc::new(MemFs::with_superblock(None, fdtable_vfs::MemFsLimits::NONE));
        let outcome = build(&SMALL, &bare, Until::Passes(1)).unwrap();
        assert_eq!(outcome.lists, None);
    }

    #[test]
    fn a_second_build_finds_what_the_first_one_made() {
        let fs = Arc::default();
        for _ in 0..2 {
            let outcome = build(&SMALL, &fs, Until::Passes(1)).unwrap();
            assert_eq!(outcome.operations, 4);
        }
    }

    #[test]
    fn a_build_of_some_time_compiles_at_least_once_and_ends() {
        let time = Until::Elapsed(Duration::from_millis(20));
        let outcome = build(&SMALL, &Arc::default(), time).unwrap();
        assert!(outcome.operations >= 1);
        assert!(outcome.wall >= Duration::from_millis(20));
    }

    #[test]
    fn an_invalid_size_is_refused() {
        let refused = |build: &Build, until| super::build(build, &Arc::default(), until).is_err();
        let no_jobs = Build { jobs: 0, ..SMALL };
        let too_many = Build {
            headers_of_each: 9,
            ..SMALL
        };
        assert!(refused(&no_jobs, Until::Passes(1)));
        assert!(refused(&too_many, Until::Passes(1)));
        assert!(refused(&SMALL, Until::Passes(0)));
    }
}
