//! Deaths at any instruction: what is shared with a killed process stays whole.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, iter, thread};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{OURS, compiled, folder};

/// After this the tree counts as waiting forever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills workers of a tree at random moments, in calls and outside. The program fails if anything
/// of what they share with others is lost, doubled, torn, or still held.
#[test]
fn what_others_share_with_a_killed_process_is_whole() {
    for (place, seed) in [("/fdt", 1), (".", 2)] {
        kill_workers(place, kills(), seed);
    }
}

/// Returns how many workers are killed: in the long checks, very many.
fn kills() -> u32 {
    let kills = env::var("FDTABLE_KILLS").ok();
    kills.map_or(150, |kills| kills.parse().expect("a number of kills"))
}

fn kill_workers(place: &str, kills: u32, seed: u64) {
    let program = compiled("killed", &[]);
    let mut command = Command::new(OURS[0]);
    command.arg(OURS[1]).arg(program).arg(place);
    command.current_dir(folder("killed"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut tree = command.spawn().expect("a tree");
    let output = BufReader::new(tree.stdout.take().expect("a pipe"));
    let (tell, hear) = mpsc::channel();
    thread::spawn(move || {
        output
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| tell.send(line))
    });
    let mut random = seed;
    let mut below = |end: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % end
    };
    let mut living = Vec::new();
    for number in 0..kills {
        // There are four, and the program starts another one for each that has died. Not always
        // are all awaited, so several are dead at once.
        while living.len() as u64 <= below(4) {
            let line = hear.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|end| panic!("{end:?} after {number} kills"));
            living.push(line.parse().unwrap_or_else(|_| panic!("{line}")));
        }
        living.extend(hear.try_iter().filter_map(|line| line.parse::<i32>().ok()));
        thread::sleep(Duration::from_micros(below(3000)));
        let at = below(living.len() as u64) as usize;
        let killed = Pid::from_raw(living.swap_remove(at)).expect("the id of a process");
        kill_process(killed, Signal::KILL).expect("a process");
    }
    drop(tree.stdin.take());
    let last = iter::from_fn(|| hear.recv_timeout(PATIENCE).ok()).last();
    assert_eq!(last.as_deref(), Some("done"));
    assert!(tree.wait().expect("a status").success());
}

/// Kills processes in which a thread forks and another one waits in a call. A thread that was about
/// to fork has all others wait; the one that waits has to end its call for the process to be
/// reaped.
#[test]
fn a_process_that_is_killed_while_it_forks_is_reaped_at_once() {
    const KILLS: u32 = 30;
    /// A completion process that completes nothing is ended after ten seconds.
    const AT_ONCE: Duration = Duration::from_secs(8);
    let mut command = Command::new(OURS[0]);
    command
        .arg(OURS[1])
        .arg(compiled("forking", &[]))
        .arg(KILLS.to_string())
        .current_dir(folder("forking"))
        .process_group(0)
        .stdout(Stdio::piped());
    let mut tree = command.spawn().expect("a tree");
    let mut output = BufReader::new(tree.stdout.take().expect("a pipe")).lines();
    let mut line = || output.next().and_then(Result::ok).expect("a line");
    let mut late = None;
    for number in 0..KILLS {
        let id = line().parse().ok().and_then(Pid::from_raw).expect("an id");
        // Between two forks, and in all parts of one.
        thread::sleep(Duration::from_micros(1_000 + u64::from(number) * 61));
        let killed = Instant::now();
        kill_process(id, Signal::KILL).expect("it runs");
        assert_eq!(line(), "ended");
        late = Some((number, killed.elapsed())).filter(|(_, took)| *took >= AT_ONCE);
        if late.is_some() {
            kill_process_group(Pid::from_child(&tree), Signal::KILL).expect("it runs");
            break;
        }
    }
    assert_eq!(late, None, "the number, and how long it took");
    assert!(tree.wait().is_ok_and(|status| status.success()));
}
