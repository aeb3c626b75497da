//! `fdtable bench`: from the command line to reports.

use fdtable_bench::alloc::Alloc;
use fdtable_bench::chat::Chat;
use fdtable_bench::experiment::{self, Effort};
use fdtable_bench::fd_scale::FdScale;
use fdtable_bench::fork::Fork;
use fdtable_bench::grow::Grow;
use fdtable_bench::json;
use fdtable_bench::lookup::Lookup;
use fdtable_bench::open_files::OpenFiles;
use fdtable_bench::slab::Slab;
use fdtable_bench::sparse::Sparse;

use crate::arguments::{Bench, ChatArguments, Common, Experiment, OpenFilesArguments};
use crate::progress::Bar;

/// Runs what was chosen, prints each report when it is done, and writes them all in the end.
pub(crate) fn run(chosen: &Bench) -> anyhow::Result<()> {
    let bar = Bar::new();
    let mut reports = Vec::new();
    for experiment in experiments(chosen) {
        let report = experiment::run(&*experiment, &bar)?;
        bar.above(|| println!("{report}"));
        reports.push(report);
    }
    match &chosen.common.json {
        Some(path) => json::write(path, &reports),
        None => Ok(()),
    }
}

/// Lists the experiments with the configuration that was asked for.
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
            Box::new(sparse(common)),
            Box::new(chat(common, &ChatArguments::default())),
        ],
        Some(Experiment::Lookup) => vec![Box::new(lookup(common))],
        Some(Experiment::FdScale) => vec![Box::new(fd_scale(common))],
        Some(Experiment::Alloc) => vec![Box::new(alloc(common))],
        Some(Experiment::Slab) => vec![Box::new(slab(common))],
        Some(Experiment::OpenFiles(load)) => vec![Box::new(open_files(common, load))],
        Some(Experiment::Grow) => vec![Box::new(grow(common))],
        Some(Experiment::Fork) => vec![Box::new(fork(common))],
        Some(Experiment::Sparse) => vec![Box::new(sparse(common))],
        Some(Experiment::Chat(size)) => vec![Box::new(chat(common, size))],
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

fn sparse(common: &Common) -> Sparse {
    let default = Sparse::new(effort(common));
    Sparse {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(chosen: &Bench) -> Vec<&'static str> {
        experiments(chosen)
            .iter()
            .map(|experiment| experiment.name())
            .collect()
    }

    #[test]
    fn no_choice_is_every_experiment_there_is() {
        let all = [
            "lookup",
            "fd-scale",
            "alloc",
            "slab",
            "open-files",
            "grow",
            "fork",
            "sparse",
            "chat",
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
            json: None,
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
            sparse(&common).rounds,
        ];
        assert_eq!(rounds, [3; 5]);
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
