//! Start time of the process on Linux.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ProcessStartup;

/// Time at which [`note_loaded`] ran, in nanoseconds since the machine started; 0 before that.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// Records the load time. It runs before `main`, after the initialisers of the shared libraries
/// that the program is linked to.
fn note_loaded() {
    LOADED.store(nanoseconds_since_boot().unwrap_or(0), Ordering::Relaxed);
}

// SAFETY: the function makes one libc call that needs no preparation, stores one number, and cannot
// panic.
crate::before_main!(unsafe note_loaded);

pub(super) fn measure() -> Option<ProcessStartup> {
    let now = nanoseconds_since_boot()?;
    let loaded = LOADED.load(Ordering::Relaxed);
    if is_cargo_itself() {
        let total = Duration::from_nanos(now.checked_sub(loaded).filter(|_| loaded > 0)?);
        return Some(ProcessStartup { total, before_main: None });
    }
    between(process_start()?, loaded, now)
}

/// Returns the start-up of a process that started, was loaded, and started its first action at
/// these times. Returns `None` if the times are not in this order.
fn between(started: u64, loaded: u64, now: u64) -> Option<ProcessStartup> {
    let total = Duration::from_nanos(now.checked_sub(started)?);
    let before_main = match loaded {
        0 => None,
        // The load time precedes the start if the process was forked or restored from a checkpoint.
        loaded => Some(Duration::from_nanos(loaded.checked_sub(started)?)),
    };
    Some(ProcessStartup { total, before_main })
}

/// Reads the clock in which the kernel reports the start times of processes.
fn nanoseconds_since_boot() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid local `timespec` that outlives the call.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let nanoseconds = u64::try_from(time.tv_sec).ok()?.checked_mul(1_000_000_000)?;
    (answer == 0).then_some(nanoseconds + u64::try_from(time.tv_nsec).ok()?)
}

/// Returns the start time of this process, in nanoseconds since the machine started.
fn process_start() -> Option<u64> {
    let ticks = start_ticks(&fs::read_to_string("/proc/self/stat").ok()?)?;
    // SAFETY: `sysconf` takes an integer and changes no state.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    ticks.checked_mul(1_000_000_000)?.checked_div(per_second)
}

/// Parses field 22 of `/proc/self/stat`. Only the second field, the program's name in parentheses,
/// may contain spaces and parentheses.
fn start_ticks(stat: &str) -> Option<u64> {
    const FIRST_AFTER_NAME: usize = 3;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(22 - FIRST_AFTER_NAME)?.parse().ok()
}

/// Returns `true` if `cargo run` replaced itself with this process by `exec`. The process then has
/// cargo's variables but did not inherit them from its parent.
fn is_cargo_itself() -> bool {
    let environment = |process: &str| fs::read(format!("/proc/{process}/environ"));
    let Ok(own) = environment("self") else { return false };
    let Some(package) = cargo_package(&own) else { return false };
    let parent = std::os::unix::process::parent_id().to_string();
    // A parent whose environment is unreadable counts as one without cargo's variables.
    environment(&parent).map_or(true, |parent| cargo_package(&parent) != Some(package))
}

/// Returns the variable that cargo sets for programs it runs, from a list separated by zero bytes.
fn cargo_package(environment: &[u8]) -> Option<&[u8]> {
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| variable.strip_prefix(b"CARGO_MANIFEST_DIR="))
}

pub(super) fn is_main_thread() -> bool {
    // SAFETY: both functions take no arguments, change no state and cannot fail.
    unsafe { libc::gettid() == libc::getpid() }
}

/// Returns the system's name of the calling thread, if it was given one. This is for threads that
/// another runtime started, or another copy of the standard library in a shared library. The name
/// has at most 15 bytes.
pub fn name_of_system_thread() -> Option<String> {
    // Miri does not support this call.
    if cfg!(miri) {
        return None;
    }
    if is_main_thread() {
        return Some("main".to_owned());
    }
    let mut buffer = [0_u8; 16];
    // SAFETY: `PR_GET_NAME` writes at most 16 bytes, including the final zero, and `buffer` has 16
    // bytes.
    let answer = unsafe { libc::prctl(libc::PR_GET_NAME, buffer.as_mut_ptr()) };
    let name = std::ffi::CStr::from_bytes_until_nul(&buffer).ok()?.to_string_lossy();
    // An unnamed thread inherits the name of its creator and so, indirectly, of the program.
    let program = fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let is_own = answer == 0 && !name.is_empty() && name != program.trim_end_matches('\n');
    is_own.then(|| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the name of a thread. Tests run on their own threads, so none of them is the main
    /// thread.
    #[test]
    fn a_thread_has_the_name_that_the_system_knows() {
        let named = std::thread::Builder::new().name("a-loader".to_owned());
        let named = named.spawn(name_of_system_thread).expect("a thread").join().expect("no panic");
        assert_eq!(named.as_deref(), Some("a-loader"));
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let rest = "S 1 2 3 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 1263261 3133440 413";
        for name in ["cat", "a b", ") 1 2 3 4 5 6 7 8 9 10 (", "))) S ((("] {
            assert_eq!(start_ticks(&format!("31608 ({name}) {rest}\n")), Some(1_263_261), "{name}");
        }
        for broken in ["", "1 (x", "1 (x) S 1", "1 (x) a b c d e f g h i j k l m n o p q r s t u"] {
            assert_eq!(start_ticks(broken), None, "{broken}");
        }
    }

    #[test]
    fn times_in_another_order_are_no_start_up() {
        let startup = between(1_000, 4_000, 9_000).expect("the usual order");
        assert_eq!(startup.total, Duration::from_nanos(8_000));
        assert_eq!(startup.before_main, Some(Duration::from_nanos(3_000)));
        assert_eq!(between(5_000, 4_000, 9_000), None, "forked after it was loaded");
        assert_eq!(between(9_500, 9_600, 9_000), None, "restored on another machine");
        assert_eq!(between(1_000, 0, 9_000).map(|startup| startup.before_main), Some(None));
    }

    #[test]
    fn this_process_was_loaded_after_it_started() {
        let (started, now) = (process_start(), nanoseconds_since_boot());
        let loaded = LOADED.load(Ordering::Relaxed);
        let started = started.expect("/proc is there");
        assert!(started <= loaded && Some(loaded) <= now, "{started} {loaded} {now:?}");
    }

    #[test]
    fn cargos_variable_is_found_whole() {
        let environment = b"A=1\0XCARGO_MANIFEST_DIR=/x\0CARGO_MANIFEST_DIR=/a b\0B=2\0";
        assert_eq!(cargo_package(environment), Some(&b"/a b"[..]));
        assert_eq!(cargo_package(b"CARGO=/usr/bin/cargo\0"), None);
        assert_eq!(cargo_package(b""), None);
    }
}
