//! The code under test reads the simulated CPU, and the kernel's registration is restored
//! afterwards.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::arch::asm;
use std::ffi::CStr;

use conflict_tracer::{CpuId, Cpus, Error, MAX_CPUS, Recorder, numbers};

/// Puts this thread on a simulated CPU.
fn claim() -> CpuId {
    // SAFETY: the sequences of these tests touch nothing that is shared.
    unsafe { CpuId::claim() }.unwrap()
}

/// Starts simulated CPUs.
fn start(count: usize) -> Result<Cpus, Error> {
    // SAFETY: as for `claim`.
    unsafe { Cpus::new(count) }
}

fn c_library_cpu() -> i32 {
    // SAFETY: returns a number.
    unsafe { libc::sched_getcpu() }
}

fn system_cpu() -> u32 {
    let mut cpu = u32::MAX;
    let nothing = std::ptr::null_mut::<u32>();
    // SAFETY: a word of this thread.
    let answer = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, nothing, nothing) };
    assert_eq!(answer, 0);
    cpu
}

/// Returns this thread's rseq area, if there are areas.
fn area() -> Option<*mut u8> {
    let size: u32 = symbol(c"__rseq_size")?;
    let offset: isize = symbol(c"__rseq_offset")?;
    let pointer: *mut u8;
    // SAFETY: loads the thread pointer.
    unsafe { asm!("mov {}, fs:0", out(reg) pointer) };
    (size > 0).then(|| pointer.wrapping_offset(offset))
}

fn symbol<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: looks a symbol up.
    let place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: a constant of the C library of this type, or null.
    unsafe { place.cast::<T>().as_ref() }.copied()
}

/// Runs a restartable sequence of a few instructions. Returns true if it finished, and false if it
/// was restarted a thousand times.
fn sequence_ends(area: *mut u8) -> bool {
    let left: u64;
    // SAFETY: the descriptor is well formed, and the sequence changes registers only.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "2:",
            ".long 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "6:",
            "dec {left}",
            "jz 5f",
            "jmp 3f",
            ".popsection",
            "3:",
            "lea {at}, [rip + 2b]",
            "mov [{area} + 8], {at}",
            "4:",
            "nop",
            "nop",
            "nop",
            "5:",
            area = in(reg) area,
            at = out(reg) _,
            left = inout(reg) 1000_u64 => left,
        );
    }
    left > 0
}

#[test]
fn all_readers_get_the_simulated_number() {
    let cpu = claim();
    let mut recorder = Recorder::new().unwrap();
    let asked = || (c_library_cpu(), system_cpu());
    let (seen, trace) = recorder.record(&cpu, asked).unwrap();
    if area().is_some() {
        assert_eq!(seen.0 as usize, cpu.number());
        assert_eq!(c_library_cpu(), seen.0, "also without a trace");
    }
    assert_eq!(seen.1 as usize, cpu.number());
    assert_eq!(trace.cpu(), cpu.index());
}

#[test]
fn afterwards_the_kernel_has_the_area_again() {
    let Some(area) = area() else { return };
    // SAFETY: the area's words, of this thread.
    let word = |at: usize| unsafe { area.wrapping_add(at).cast::<i32>().read_volatile() };
    let processors = std::thread::available_parallelism().unwrap().get() as i32;
    drop(claim());
    std::thread::yield_now();
    assert!((0..processors.max(64)).contains(&word(4)), "{}", word(4));
    // Registered: the kernel refuses a second registration.
    // SAFETY: requests the existing registration.
    let again = unsafe { libc::syscall(libc::SYS_rseq, area, 32, 0, 0x5305_3053) };
    assert_eq!(again, -1);
    let errno = std::io::Error::last_os_error().raw_os_error();
    assert!(
        matches!(errno, Some(libc::EBUSY | libc::EINVAL)),
        "{errno:?}"
    );
    assert!(sequence_ends(area));
}

#[test]
fn restartable_sequences_run_to_their_end() {
    let mut cpus = start(1).unwrap();
    let Some(area) = cpus.run(0, || area().map(|area| area as usize)).unwrap() else {
        return;
    };
    let (ended, trace) = cpus.trace(0, || sequence_ends(area as *mut u8)).unwrap();
    assert!(ended);
    assert!(trace.is_whole(), "{:?}", trace.remarks());
}

#[test]
fn each_simulated_cpu_has_a_unique_number() {
    let (mut some, mut others) = (start(4).unwrap(), start(3).unwrap());
    assert_eq!(some.count(), 4);
    let mut claimed = Vec::new();
    for cpus in [&mut some, &mut others] {
        for cpu in 0..cpus.count() {
            let (number, trace) = cpus.trace(cpu, system_cpu).unwrap();
            assert_eq!(trace.cpu(), cpu);
            if area().is_some() {
                assert_eq!(cpus.run(cpu, c_library_cpu).unwrap() as u32, number);
            }
            claimed.push(number as usize);
        }
    }
    claimed.sort_unstable();
    claimed.dedup();
    assert_eq!(claimed.len(), 7);
    assert!(
        claimed[0] >= numbers(0).unwrap(),
        "the kernel's come before"
    );
    assert!(system_cpu() < claimed[0] as u32);
}

#[test]
fn missing_numbers_are_errors() {
    assert!(matches!(start(0), Err(Error::CpuCount(0))));
    assert!(matches!(start(MAX_CPUS + 1), Err(Error::CpuCount(_))));
    let mut cpus = start(1).unwrap();
    assert!(matches!(cpus.run(1, || ()), Err(Error::NoSuchCpu(1))));
    assert!(matches!(cpus.trace(1, || ()), Err(Error::NoSuchCpu(1))));
}

#[test]
fn a_thread_is_not_on_two_cpus() {
    let cpu = claim();
    // SAFETY: as for `claim`.
    let second = unsafe { CpuId::claim() };
    assert!(matches!(second, Err(Error::AlreadySimulated)));
    drop(second);
    if area().is_some() {
        assert_eq!(c_library_cpu() as usize, cpu.number());
    }
}
