//! Formats thread stacks as text, without frames of the Rust runtime. Idle threads of one kind
//! share a line.

use mlprof_events::live::{StackFrame, ThreadStack};

/// Name prefixes of runtime functions that call a thread's main function.
const RUNTIME: [&str; 12] = [
    "__rust_begin_short_backtrace",
    "__rust_try",
    "core::ops::function::",
    "std::panic::",
    "std::panicking::",
    "std::rt::",
    "std::sys::",
    "std::sys_common::",
    "std::thread::",
    "<alloc::boxed::Box<",
    "alloc::boxed::Box<",
    "core::panic::unwind_safe::",
];
/// C library functions that start threads and programs.
const STARTS: [&str; 9] = [
    "__clone",
    "__clone3",
    "__libc_start_call_main",
    "__libc_start_main",
    "__libc_start_main@@GLIBC_2.34",
    "__libc_start_main_impl",
    "_start",
    "clone3",
    "start_thread",
];
/// Functions in which a thread waits for work.
const WAITS: [&str; 12] = [
    "__futex_abstimed_wait_common",
    "__poll",
    "__sched_yield",
    "clock_nanosleep",
    "epoll_wait",
    "futex_wait",
    "nanosleep",
    "poll",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "sched_yield",
    "syscall",
];
/// Function in which idle rayon threads wait. They also search for work there.
const LOOKS_FOR_WORK: &str = "rayon_core::registry::WorkerThread::wait_until";
/// Name prefixes of the functions that this wait calls while there is no work.
const LOOKING: [&str; 7] =
    ["rayon_core::", "crossbeam", "core::", "std::", "<rayon_core::", "<crossbeam", "<core::"];
/// Maximum number of thread ids on one line.
const MOST_NUMBERS: usize = 16;

/// Formats all stacks. Idle threads that wait for the same event share a line.
pub(super) fn text(stacks: &[ThreadStack]) -> String {
    let mut text = String::new();
    let mut folded = vec![false; stacks.len()];
    for (place, stack) in stacks.iter().enumerate() {
        if folded[place] {
            continue;
        }
        let waits = wait_of(stack);
        let alike = |other: &ThreadStack| waits.is_some() && wait_of(other) == waits;
        let same: Vec<usize> =
            (place + 1..stacks.len()).filter(|other| alike(&stacks[*other])).collect();
        match waits {
            Some(waits) if !same.is_empty() => {
                let numbers =
                    std::iter::once(&place).chain(&same).map(|place| stacks[*place].number);
                text += &idle_line(&waits, &numbers.collect::<Vec<_>>());
                same.iter().for_each(|place| folded[*place] = true);
            }
            _ => text += &stack_text(stack),
        }
    }
    text
}

/// Wait function of an idle thread, and its callers.
#[derive(PartialEq)]
struct Wait<'a> {
    function: &'a str,
    callers: &'a [StackFrame],
}

/// Returns the wait of an idle thread, or `None` if the thread is not idle.
fn wait_of(stack: &ThreadStack) -> Option<Wait<'_>> {
    let frames = &stack.frames[..];
    let looks = frames.iter().position(|frame| frame.function.contains(LOOKS_FOR_WORK));
    if let Some(place) = looks
        && frames[..place].iter().all(is_looking)
    {
        return Some(Wait { function: &frames[place].function, callers: &frames[place + 1..] });
    }
    let first = frames.first().filter(|frame| is_wait(frame))?;
    Some(Wait { function: &first.function, callers: &frames[1..] })
}

fn is_wait(frame: &StackFrame) -> bool {
    WAITS.contains(&frame.function.as_str())
}

fn is_looking(frame: &StackFrame) -> bool {
    is_wait(frame) || LOOKING.iter().any(|known| frame.function.starts_with(known))
}

fn idle_line(waits: &Wait<'_>, numbers: &[u32]) -> String {
    let shown: Vec<_> = numbers.iter().take(MOST_NUMBERS).map(u32::to_string).collect();
    let rest = if numbers.len() > shown.len() { ", …" } else { "" };
    // The first caller outside the runtime shows the reason for the wait.
    let caller = waits.callers.iter().find(|frame| !is_looking(frame) && !is_runtime(frame));
    let caller = caller.map_or(String::new(), |frame| format!(" below {}", frame_line(frame)));
    format!(
        "{} threads wait in {}{caller}: {}{rest}\n",
        numbers.len(),
        waits.function,
        shown.join(", ")
    )
}

fn stack_text(stack: &ThreadStack) -> String {
    let mut text = format!("{} (thread {}) is in\n", stack.thread, stack.number);
    let own = own_frames(&stack.frames);
    own.iter().for_each(|frame| text += &format!("  {}\n", frame_line(frame)));
    match stack.frames.len() - own.len() {
        0 => {}
        1 => text += "  (1 frame of the runtime)\n",
        count => text += &format!("  ({count} frames of the runtime)\n"),
    }
    if stack.frames.is_empty() {
        text += "  (unknown: the thread could not be interrupted)\n";
    }
    text
}

fn is_runtime(frame: &StackFrame) -> bool {
    RUNTIME.iter().any(|known| frame.function.starts_with(known))
        || STARTS.contains(&frame.function.as_str())
}

/// Removes the runtime frames that lead to the main function of the thread or program. Returns all
/// frames if no other frame is left.
fn own_frames(frames: &[StackFrame]) -> &[StackFrame] {
    let mut own = frames;
    while let Some((outermost, inner)) = own.split_last() {
        // The Rust runtime provides a C function `main`. Without the runtime, `main` belongs to the
        // program.
        let is_c_main = outermost.function == "main" && inner.last().is_some_and(is_runtime);
        if !is_runtime(outermost) && !is_c_main {
            break;
        }
        own = inner;
    }
    if own.is_empty() { frames } else { own }
}

/// Formats a frame as `my_model::forward (src/net.rs:12)`, or with the library if the source is
/// unknown.
fn frame_line(frame: &StackFrame) -> String {
    let StackFrame { function, library, file, line } = frame;
    match (file, line) {
        (Some(file), Some(line)) => format!("{function} ({file}:{line})"),
        (Some(place), None) => format!("{function} ({place})"),
        (None, _) if library.is_empty() => function.clone(),
        (None, _) => format!("{function} ({library})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(number: u32, functions: &[&str]) -> ThreadStack {
        let frame = |function: &&str| StackFrame {
            function: (*function).to_owned(),
            library: String::new(),
            file: None,
            line: None,
        };
        let frames = functions.iter().map(frame).collect();
        ThreadStack { thread: "train".into(), number, frames }
    }

    const START: [&str; 10] = [
        "core::ops::function::FnOnce::call_once",
        "std::sys::backtrace::__rust_begin_short_backtrace",
        "std::rt::lang_start::{{closure}}",
        "std::panicking::catch_unwind::do_call",
        "__rust_try",
        "std::rt::lang_start_internal",
        "std::rt::lang_start",
        "main",
        "__libc_start_call_main",
        "_start",
    ];

    #[test]
    fn frames_below_main_are_counted_and_not_listed() {
        let mut functions = vec!["candle::matmul", "app::main"];
        functions.extend(START);
        let expected =
            "train (thread 1) is in\n  candle::matmul\n  app::main\n  (10 frames of the runtime)\n";
        assert_eq!(text(&[stack(1, &functions)]), expected);
        let spawned = ["app::load", "std::thread::Builder::spawn_unchecked_", "start_thread"];
        assert!(text(&[stack(2, &spawned)]).ends_with("app::load\n  (2 frames of the runtime)\n"));
        // A C program's `main` is its own function. Calls of `std` between two own frames are also
        // kept.
        let foreign = ["std::thread::sleep", "work", "main", "__libc_start_call_main", "_start"];
        let shown = text(&[stack(3, &foreign)]);
        assert!(shown.contains("  std::thread::sleep\n  work\n  main\n  (2 frames"), "{shown}");
        // If a stack has only runtime frames, all of them are printed.
        assert_eq!(text(&[stack(4, &START[..3])]).lines().count(), 4);
    }

    #[test]
    fn idle_threads_that_wait_for_the_same_are_one_line() {
        const WAIT: &str = "rayon_core::registry::WorkerThread::wait_until_cold";
        let idle = |number, inside: &[&str]| {
            let outside = [WAIT, "rayon_core::registry::ThreadBuilder::run", "start_thread"];
            stack(number, &[inside, &outside].concat())
        };
        let stacks = [
            stack(1, &["app::step", "app::main"]),
            idle(2, &["sched_yield", "std::thread::yield_now"]),
            idle(3, &["crossbeam_deque::deque::Stealer<T>::steal"]),
            // This thread is busy: it runs an op's closure below rayon's wait function.
            idle(4, &["gemm::gemm", "rayon_core::job::execute"]),
            stack(5, &["epoll_wait", "tokio::run", "start_thread"]),
            idle(6, &["sched_yield"]),
        ];
        let expected = "\
train (thread 1) is in
  app::step
  app::main
3 threads wait in rayon_core::registry::WorkerThread::wait_until_cold: 2, 3, 6
train (thread 4) is in
  gemm::gemm
  rayon_core::job::execute
  rayon_core::registry::WorkerThread::wait_until_cold
  rayon_core::registry::ThreadBuilder::run
  (1 frame of the runtime)
train (thread 5) is in
  epoll_wait
  tokio::run
  (1 frame of the runtime)
";
        assert_eq!(text(&stacks), expected);
        // Waits with different callers are not merged.
        let two = [stack(1, &["futex_wait", "app::a"]), stack(2, &["futex_wait", "app::b"])];
        assert_eq!(text(&two).lines().count(), 6);
        let two = [stack(1, &["futex_wait", "app::a"]), stack(2, &["futex_wait", "app::a"])];
        assert_eq!(text(&two), "2 threads wait in futex_wait below app::a: 1, 2\n");
    }
}
