//! `fdtable bench`: from the command line to reports.

use std::fs;
use std::path::Path;

use anyhow::Context;
use fdtable_bench::alloc::Alloc;
use fdtable_bench::chat::Chat;
use fdtable_bench::compare::{Comparison, Old};
use fdtable_bench::experiment::{self, Effort};
use fdtable_bench::fd_scale::FdScale;
use fdtable_bench::fork::Fork;
use fdtable_bench::grow::Grow;
use fdtable_bench::html::Folder;
use fdtable_bench::json;
use fdtable_bench::libmicro::LibMicro;
use fdtable_bench::lmbench::Lmbench;
use fdtable_bench::lookup::Lookup;
use fdtable_bench::markdown::{ComparedMarkdown, FiguresMarkdown, Markdown};
use fdtable_bench::open_files::OpenFiles;
use fdtable_bench::peers::Peers;
use fdtable_bench::ports::Ports;
use fdtable_bench::report::Report;
use fdtable_bench::run::{Programs, Run};
use fdtable_bench::slab::Slab;

use crate::arguments::{Bench, ChatArguments, Common, Experiment, Form, OpenFilesArguments};
use crate::progress::Bar;

/// Runs the chosen experiments. Prints each report when it is done, and writes all at the end.
/// After a failure it still writes the reports that were done before. Checks all files for reading
/// and writing before any measurement.
pub(crate) fn run(chosen: &Bench) -> anyhow::Result<()> {
    let common = &chosen.common;
    let old = common.compare.as_deref().map(Old::read).transpose()?;
    let written = Written::prepare(&common.form)?;
    let (reports, failed) = measure(&experiments(chosen), &common.form);
    if reports.is_empty() {
        return failed;
    }
    let compared = old.map(|old| Comparison::new(&old, &reports)).transpose()?;
    written.write(&reports, compared.as_ref())?;
    match compared {
        Some(compared) if common.form.markdown => println!("{}", ComparedMarkdown(&compared)),
        Some(compared) => println!("{compared}"),
        None => {}
    }
    failed
}

/// Destinations of reports.
pub(crate) struct Written<'f> {
    json: Option<&'f Path>,
    figures: Option<&'f Path>,
    folder: Option<Folder>,
}

impl<'f> Written<'f> {
    /// Creates the folder, if one was requested.
    pub(crate) fn prepare(form: &'f Form) -> anyhow::Result<Self> {
        Ok(Written {
            json: form.json.as_deref(),
            figures: form.figures.as_deref(),
            folder: form.html.as_deref().map(Folder::make).transpose()?,
        })
    }

    pub(crate) fn write(
        &self,
        reports: &[Report],
        compared: Option<&Comparison>,
    ) -> anyhow::Result<()> {
        if let Some(path) = self.json {
            json::write(path, reports)?;
        }
        if let Some(path) = self.figures {
            let page = FiguresMarkdown(reports).to_string();
            fs::write(path, page).with_context(|| path.display().to_string())?;
        }
        if let Some(folder) = &self.folder {
            folder.write(reports, compared)?;
        }
        Ok(())
    }
}

/// Runs one experiment after the other, and prints each report when it is done. If one fails, it
/// still runs the others, and returns the first failure beside their reports.
pub(crate) fn measure(
    experiments: &[Box<dyn experiment::Experiment>],
    form: &Form,
) -> (Vec<Report>, anyhow::Result<()>) {
    let bar = Bar::new(experiments.iter().map(|it| it.expected()).collect());
    let (mut reports, mut failed) = (Vec::new(), Ok(()));
    for experiment in experiments {
        bar.next();
        let run = experiment::run(&**experiment, &bar);
        let report = match run.with_context(|| experiment.name().to_owned()) {
            Ok(report) => report,
            Err(error) => {
                failed = failed.and(Err(error));
                continue;
            }
        };
        bar.above(|| {
            if form.markdown {
                println!("{}", Markdown(&report));
            } else {
                println!("{report}");
            }
        });
        reports.push(report);
    }
    (reports, failed)
}

/// Lists the chosen experiments with their configuration.
fn experiments(chosen: &Bench) -> Vec<Box<dyn experiment::Experiment>> {
    let common = &chosen.common;
    match &chosen.experiment {
        None => vec![
            Box::new(lookup(common)),
            Box::new(fd_scale(common)),
            Box::new(alloc(common)),
            Box::new(slab(common)),
            Box::new(open_files(common, &OpenFilesArguments::default())),
            Box::new(grow(common)),
            Box::new(fork(common)),
            Box::new(chat(common, &ChatArguments::default())),
            Box::new(libmicro(common)),
            Box::new(peers(common)),
            Box::new(lmbench(common)),
            Box::new(ports(common)),
            Box::new(run_programs(Programs::Single, common)),
            Box::new(run_programs(Programs::Trees, common)),
        ],
        Some(Experiment::Lookup) => vec![Box::new(lookup(common))],
        Some(Experiment::FdScale) => vec![Box::new(fd_scale(common))],
        Some(Experiment::Alloc) => vec![Box::new(alloc(common))],
        Some(Experiment::Slab) => vec![Box::new(slab(common))],
        Some(Experiment::OpenFiles(load)) => vec![Box::new(open_files(common, load))],
        Some(Experiment::Grow) => vec![Box::new(grow(common))],
        Some(Experiment::Fork) => vec![Box::new(fork(common))],
        Some(Experiment::Chat(size)) => vec![Box::new(chat(common, size))],
        Some(Experiment::Libmicro) => vec![Box::new(libmicro(common))],
        Some(Experiment::Peers) => vec![Box::new(peers(common))],
        Some(Experiment::Lmbench) => vec![Box::new(lmbench(common))],
        Some(Experiment::Ports) => vec![Box::new(ports(common))],
        Some(Experiment::Run) => vec![Box::new(run_programs(Programs::Single, common))],
        Some(Experiment::Tree) => vec![Box::new(run_programs(Programs::Trees, common))],
    }
}

fn effort(common: &Common) -> Effort {
    if common.quick {
        Effort::Quick
    } else {
        Effort::Full
    }
}

fn lookup(common: &Common) -> Lookup {
    let default = Lookup::new(effort(common));
    Lookup {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

fn fd_scale(common: &Common) -> FdScale {
    let default = FdScale::new(effort(common));
    FdScale {
        hot_rounds: common.rounds.unwrap_or(default.hot_rounds),
        cold_rounds: common.rounds.unwrap_or(default.cold_rounds),
        ..default
    }
}

fn alloc(common: &Common) -> Alloc {
    let default = Alloc::new(effort(common));
    Alloc {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

fn slab(common: &Common) -> Slab {
    let default = Slab::new(effort(common));
    Slab {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

fn open_files(common: &Common, load: &OpenFilesArguments) -> OpenFiles {
    let default = OpenFiles::new(effort(common));
    OpenFiles {
        rounds: common.rounds.unwrap_or(default.rounds),
        workload_rounds: common.rounds.unwrap_or(default.workload_rounds),
        clients: load.clients.unwrap_or(default.clients),
        loadfile: load.loadfile.clone(),
        ..default
    }
}

fn grow(common: &Common) -> Grow {
    let default = Grow::new(effort(common));
    Grow {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

fn fork(common: &Common) -> Fork {
    let default = Fork::new(effort(common));
    Fork {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

fn chat(common: &Common, size: &ChatArguments) -> Chat {
    let default = Chat::new(effort(common));
    Chat {
        rooms: size.rooms.unwrap_or(default.rooms),
        users: size.users.unwrap_or(default.users),
        messages: size.messages.unwrap_or(default.messages),
        message_bytes: size.message_bytes.unwrap_or(default.message_bytes),
        rounds: common.rounds.unwrap_or(default.rounds),
        profiles: common.rounds.unwrap_or(default.profiles),
        ..default
    }
}

fn peers(common: &Common) -> Peers {
    let default = Peers::new(effort(common));
    Peers {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

fn libmicro(common: &Common) -> LibMicro {
    let default = LibMicro::new(effort(common));
    LibMicro {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

fn lmbench(common: &Common) -> Lmbench {
    let default = Lmbench::new(effort(common));
    Lmbench {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

fn ports(common: &Common) -> Ports {
    let default = Ports::new(effort(common));
    Ports {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

fn run_programs(programs: Programs, common: &Common) -> Run {
    // In a child, before it becomes the runner, this is the calling program.
    let default = Run::new(programs, effort(common), "/proc/self/exe".into());
    Run {
        rounds: common.rounds.unwrap_or(default.rounds),
        ..default
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_file_that_is_no_report_is_refused_before_any_measurement() {
        let chosen = Bench {
            experiment: None,
            common: Common {
                compare: Some(PathBuf::from(file!())),
                ..Common::default()
            },
        };
        assert!(run(&chosen).is_err());
    }

    fn names(chosen: &Bench) -> Vec<&'static str> {
        experiments(chosen)
            .iter()
            .map(|experiment| experiment.name())
            .collect()
    }

    #[test]
    fn no_choice_is_every_experiment() {
        let all = [
            "lookup",
            "fd-scale",
            "alloc",
            "slab",
            "open-files",
            "grow",
            "fork",
            "chat",
            "libmicro",
            "peers",
            "lmbench",
            "ports",
            "run",
            "tree",
        ];
        assert_eq!(names(&Bench::default()), all);
    }

    #[test]
    fn a_choice_is_one_experiment() {
        let chosen = Bench {
            experiment: Some(Experiment::FdScale),
            ..Bench::default()
        };
        assert_eq!(names(&chosen), ["fd-scale"]);
    }

    #[test]
    fn a_chat_without_options_is_that_of_the_original() {
        let Chat {
            rooms,
            users,
            messages,
            message_bytes,
            ..
        } = chat(&Common::default(), &ChatArguments::default());
        assert_eq!((rooms, users, messages, message_bytes), (20, 20, 500, 100));
    }

    #[test]
    fn options_replace_defaults() {
        let common = Common {
            rounds: Some(3),
            quick: true,
            ..Common::default()
        };
        let size = ChatArguments {
            users: Some(7),
            ..ChatArguments::default()
        };
        let Chat {
            rooms,
            users,
            rounds,
            ..
        } = chat(&common, &size);
        assert_eq!((rooms, users, rounds), (20, 7, 3));
        assert_eq!(lookup(&common).rounds, 3);
        let rounds = [
            alloc(&common).rounds,
            slab(&common).rounds,
            grow(&common).rounds,
            fork(&common).rounds,
            libmicro(&common).rounds,
            peers(&common).rounds,
            lmbench(&common).rounds,
            ports(&common).rounds,
            run_programs(Programs::Trees, &common).rounds,
        ];
        assert_eq!(rounds, [3; 9]);
        let load = OpenFilesArguments {
            loadfile: Some("day.txt".into()),
            clients: Some(8),
        };
        let chosen = open_files(&common, &load);
        assert_eq!((chosen.rounds, chosen.workload_rounds), (3, 3));
        assert_eq!((chosen.clients, chosen.loadfile), (8, load.loadfile));
        assert_eq!(
            (fd_scale(&common).hot_rounds, fd_scale(&common).cold_rounds),
            (3, 3)
        );
    }
}
