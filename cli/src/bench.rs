//! `fdtable bench`: from the command line to reports.

use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use anyhow::Context;
use fdtable_bench::chat::Chat;
use fdtable_bench::compare::{Comparison, Old};
use fdtable_bench::experiment::{self, Effort};
use fdtable_bench::fd_scale::FdScale;
use fdtable_bench::html::Folder;
use fdtable_bench::json;
use fdtable_bench::libmicro::LibMicro;
use fdtable_bench::lookup::Lookup;
use fdtable_bench::markdown::FiguresMarkdown;
use fdtable_bench::open_files::OpenFiles;
use fdtable_bench::report::Report;
use fdtable_bench::slab::Slab;
use fdtable_bench::systems::Screen;
#[cfg(feature = "experiments")]
use fdtable_bench::{
    adopt::Adopt,
    fork::Fork,
    grow::Grow,
    lmbench::Lmbench,
    peers::Peers,
    ports::Ports,
    run::{Programs, Run},
};

use crate::arguments::{Bench, ChatArguments, Experiment, Form, OpenFilesArguments};
use crate::progress::Bar;

/// Runs the chosen experiments. Prints each report when it is done, and writes all at the end.
/// After a failure it still writes the reports that were done before. Checks all files for reading
/// and writing before any measurement.
pub(crate) fn run(chosen: &Bench) -> anyhow::Result<()> {
    let common = &chosen.common;
    let old = common.compare.as_deref().map(Old::read).transpose()?;
    let written = Written::prepare(&common.form)?;
    let (reports, failed) = measure(&experiments(chosen), |report| println!("{report}"));
    if reports.is_empty() {
        return failed;
    }
    let compared = old.map(|old| Comparison::new(&old, &reports)).transpose()?;
    written.write(&reports, compared.as_ref())?;
    if let Some(compared) = compared {
        println!("{compared}");
    }
    failed
}

/// The program without arguments: measures the five systems in short turns, writes everything to
/// files, and prints one screen.
pub(crate) fn first() -> anyhow::Result<()> {
    let began = Instant::now();
    let place = env::current_exe()?;
    // Beside what cargo has built, if it has built this program.
    let built = place
        .ancestors()
        .find(|it| it.join("CACHEDIR.TAG").exists());
    let folder = built
        .map_or_else(env::temp_dir, Path::to_owned)
        .join("fdtable");
    let page = Folder::make(&folder)?;
    let effort = Effort {
        quick: true,
        rounds: None,
    };
    let systems = [
        Experiment::Chat(ChatArguments::default()),
        Experiment::FdScale,
        Experiment::OpenFiles(OpenFilesArguments::default()),
        Experiment::Slab,
        Experiment::Libmicro,
    ];
    let (reports, failed) = measure(&systems.map(|it| configured(&it, effort)), |_| {});
    let screen = Screen {
        reports: &reports,
        folder: &folder,
        seconds: began.elapsed().as_secs_f64(),
    };
    print!("{screen}");
    page.write(&reports, None)?;
    json::write(&folder.join("run.json"), &reports)?;
    let tables = folder.join("tables.txt");
    let text: String = reports.iter().map(Report::to_string).collect();
    fs::write(&tables, text).with_context(|| tables.display().to_string())?;
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

/// Runs one experiment after the other, and passes each report to `print` when it is done. If one
/// fails, it still runs the others, and returns the first failure beside their reports.
pub(crate) fn measure(
    experiments: &[Box<dyn experiment::Experiment>],
    print: impl Fn(&Report),
) -> (Vec<Report>, anyhow::Result<()>) {
    let bar = Bar::new(experiments.len());
    let (mut reports, mut failed) = (Vec::new(), Ok(()));
    for (nth, experiment) in (1..).zip(experiments) {
        bar.start(nth);
        let run = experiment::run(&**experiment, &bar);
        let report = match run.with_context(|| experiment.name().to_owned()) {
            Ok(report) => report,
            Err(error) => {
                failed = failed.and(Err(error));
                continue;
            }
        };
        bar.above(|| print(&report));
        reports.push(report);
    }
    (reports, failed)
}

/// Returns the chosen experiments with their configuration.
fn experiments(chosen: &Bench) -> Vec<Box<dyn experiment::Experiment>> {
    let effort = chosen.common.effort();
    match &chosen.experiment {
        Some(chosen) => vec![configured(chosen, effort)],
        None => every().iter().map(|it| configured(it, effort)).collect(),
    }
}

/// Lists all experiments that this program was built with.
fn every() -> Vec<Experiment> {
    vec![
        Experiment::Lookup,
        Experiment::FdScale,
        Experiment::Slab,
        Experiment::OpenFiles(OpenFilesArguments::default()),
        #[cfg(feature = "experiments")]
        Experiment::Grow,
        #[cfg(feature = "experiments")]
        Experiment::Fork,
        Experiment::Chat(ChatArguments::default()),
        Experiment::Libmicro,
        #[cfg(feature = "experiments")]
        Experiment::Peers,
        #[cfg(feature = "experiments")]
        Experiment::Lmbench,
        #[cfg(feature = "experiments")]
        Experiment::Ports,
        #[cfg(feature = "experiments")]
        Experiment::Run,
        #[cfg(feature = "experiments")]
        Experiment::Tree,
        #[cfg(feature = "experiments")]
        Experiment::Adopt,
    ]
}

fn configured(chosen: &Experiment, effort: Effort) -> Box<dyn experiment::Experiment> {
    match chosen {
        Experiment::Lookup => Box::new(Lookup::new(effort)),
        Experiment::FdScale => Box::new(FdScale::new(effort)),
        Experiment::Slab => Box::new(Slab::new(effort)),
        Experiment::OpenFiles(load) => Box::new(open_files(effort, load)),
        #[cfg(feature = "experiments")]
        Experiment::Grow => Box::new(Grow::new(effort)),
        #[cfg(feature = "experiments")]
        Experiment::Fork => Box::new(Fork::new(effort)),
        Experiment::Chat(size) => Box::new(chat(effort, size)),
        Experiment::Libmicro => Box::new(LibMicro::new(effort)),
        #[cfg(feature = "experiments")]
        Experiment::Peers => Box::new(Peers::new(effort)),
        #[cfg(feature = "experiments")]
        Experiment::Lmbench => Box::new(Lmbench::new(effort)),
        #[cfg(feature = "experiments")]
        Experiment::Ports => Box::new(Ports::new(effort)),
        #[cfg(feature = "experiments")]
        Experiment::Run => Box::new(run_programs(Programs::Single, effort)),
        #[cfg(feature = "experiments")]
        Experiment::Tree => Box::new(run_programs(Programs::Trees, effort)),
        #[cfg(feature = "experiments")]
        Experiment::Adopt => Box::new(Adopt::new(effort)),
    }
}

fn open_files(effort: Effort, load: &OpenFilesArguments) -> OpenFiles {
    let default = OpenFiles::new(effort);
    OpenFiles {
        clients: load.clients.unwrap_or(default.clients),
        loadfile: load.loadfile.clone(),
        ..default
    }
}

fn chat(effort: Effort, size: &ChatArguments) -> Chat {
    let default = Chat::new(effort);
    Chat {
        rooms: size.rooms.unwrap_or(default.rooms),
        users: size.users.unwrap_or(default.users),
        messages: size.messages.unwrap_or(default.messages),
        message_bytes: size.message_bytes.unwrap_or(default.message_bytes),
        ..default
    }
}

#[cfg(feature = "experiments")]
fn run_programs(programs: Programs, effort: Effort) -> Run {
    // In a child, before it becomes the runner, this is the calling program.
    Run::new(programs, effort, "/proc/self/exe".into())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::arguments::Common;

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
        #[cfg(feature = "experiments")]
        let all = [
            "lookup",
            "fd-scale",
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
            "adopt",
        ];
        #[cfg(not(feature = "experiments"))]
        let all = [
            "lookup",
            "fd-scale",
            "slab",
            "open-files",
            "chat",
            "libmicro",
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
        } = chat(Effort::default(), &ChatArguments::default());
        assert_eq!((rooms, users, messages, message_bytes), (20, 20, 500, 100));
    }

    #[test]
    fn options_replace_defaults() {
        let effort = Effort {
            quick: true,
            rounds: Some(3),
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
        } = chat(effort, &size);
        assert_eq!((rooms, users, rounds), (20, 7, 3));
        let rounds = [
            Lookup::new(effort).rounds,
            Slab::new(effort).rounds,
            LibMicro::new(effort).rounds,
        ];
        assert_eq!(rounds, [3; 3]);
        #[cfg(feature = "experiments")]
        {
            let rounds = [
                Grow::new(effort).rounds,
                Fork::new(effort).rounds,
                Peers::new(effort).rounds,
                Lmbench::new(effort).rounds,
                Ports::new(effort).rounds,
                run_programs(Programs::Trees, effort).rounds,
            ];
            assert_eq!(rounds, [3; 6]);
        }
        let load = OpenFilesArguments {
            loadfile: Some("day.txt".into()),
            clients: Some(8),
        };
        let chosen = open_files(effort, &load);
        assert_eq!((chosen.rounds, chosen.workload_rounds), (3, 3));
        assert_eq!((chosen.clients, chosen.loadfile), (8, load.loadfile));
        let scale = FdScale::new(effort);
        assert_eq!((scale.hot_rounds, scale.cold_rounds), (3, 3));
    }
}
