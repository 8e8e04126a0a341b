//! What only a whole process shows: its start, its environment, its limits.
//!
//! Has no test harness, as its parts are processes of their own that start actions on their main
//! threads: without arguments it starts itself once per scene and looks at what they print.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("process: start-up and the counters of threads are known on Linux only");
}

#[cfg(target_os = "linux")]
fn main() {
    match std::env::var("MLPROF_TEST_SCENE") {
        Ok(scene) => scenes::play(&scene),
        Err(_) => checks::all(),
    }
}

#[cfg(target_os = "linux")]
mod scenes {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use profiler_core::hook::{OpScope, OpStart};
    use profiler_core::report::{AdvancedReport, SimpleReport};
    use profiler_core::startup::process_startup;
    use profiler_core::{
        Action, AdvancedProfiler, Profiler, ProfilerExt, Report, RunContext, SimpleProfiler, Stage,
        TensorProfiler, activate, profile, profile_dynamic,
    };

    /// As a slow shared library: runs before this crate's constructor, and before `main`.
    extern "C" fn slow_start() {
        // SAFETY: the name ends in a zero; libc may be used in constructors.
        if !unsafe { libc::getenv(c"MLPROF_TEST_SLOW_START".as_ptr()) }.is_null() {
            // SAFETY: it only sleeps.
            unsafe { libc::usleep(200_000) };
        }
    }

    // SAFETY: a function of the C calling convention in the list of those that run before `main`;
    // the number puts it before those without one.
    #[used]
    #[unsafe(link_section = ".init_array.00050")]
    static SLOW_START: extern "C" fn() = slow_start;

    pub fn play(scene: &str) {
        match scene {
            "stages" => stages(),
            "advanced" => advanced(),
            "worker first" => worker_first(),
            "forked" => forked(),
            "forks while others work" => forks_while_others_work(),
            "too many files" => too_many_files(),
            "ranks" => ranks(),
            other => panic!("no scene {other:?}"),
        }
    }

    fn print(report: SimpleReport) {
        let json = serde_json::to_string(&report).expect("a report is JSON");
        println!("{json}");
    }

    fn stages() {
        assert_eq!(process_startup(), None, "before the first action");
        let profiler = SimpleProfiler::new();
        // Reports before the first action calibrate, which is no action of the program.
        assert!(profiler.snapshot().header.startup.is_none());
        assert_eq!(process_startup(), None, "a calibration is no action");
        std::thread::sleep(Duration::from_millis(100));
        drop(profiler.profile("before_any_stage"));
        let startup = process_startup().expect("known");
        profiler.setup(Stage::Fit, &RunContext::default());
        drop(profiler.profile("training_step"));
        let other = SimpleProfiler::new();
        drop(other.profile("other"));
        print(profiler.snapshot());
        print(other.snapshot());
        println!("{}", serde_json::to_string(&profiler.summary()).expect("text"));
        let detailed = profiler.detailed();
        println!("{}", serde_json::to_string(&detailed.summary()).expect("text"));
        detailed.teardown(Some(Stage::Fit));
        detailed.setup(Stage::Test, &RunContext::default());
        drop(detailed.profile("test_step"));
        print(detailed.snapshot());
        assert_eq!(process_startup(), Some(startup), "it stays what it was");
    }

    fn advanced() {
        let profiler = AdvancedProfiler::new();
        profiler.setup(Stage::Fit, &RunContext::default());
        profiler.setup(Stage::SanityCheck, &RunContext::default());
        drop(profiler.profile("validation_step"));
        profiler.teardown(Some(Stage::SanityCheck));
        let Some(Report::Advanced(report)) = profiler.report() else { panic!("no report") };
        let report: AdvancedReport = report;
        println!("{}", serde_json::to_string(&report).expect("a report is JSON"));
        print!("{}", profiler.summary());
    }

    fn worker_first() {
        let profiler = SimpleProfiler::new();
        std::thread::scope(|scope| scope.spawn(|| drop(profiler.profile("load"))).join())
            .expect("no panic");
        let startup = process_startup().expect("it has ended");
        std::thread::sleep(Duration::from_millis(50));
        assert!(profiler.snapshot().header.startup.is_none(), "no action on the main thread yet");
        drop(profiler.profile("train"));
        let report = profiler.snapshot();
        let shown = report.header.startup.expect("the first report of the main thread");
        assert_eq!(shown.total_seconds, startup.total.as_secs_f64(), "until the worker's action");
        print(report);
    }

    fn forked() {
        drop(SimpleProfiler::new()); // some work before the fork, but no action
        std::thread::sleep(Duration::from_millis(50)); // more than a tick of the kernel
        // SAFETY: the process has one thread.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork");
        if child == 0 {
            let profiler = SimpleProfiler::new();
            drop(profiler.profile("in_the_child"));
            assert_eq!(process_startup(), None);
            print(profiler.snapshot());
            return;
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child's asserts held");
        // After an action a child has the parent's memory, but not the parent's start.
        let profiler = SimpleProfiler::new();
        drop(profiler.profile("in_the_parent"));
        assert!(process_startup().is_some());
        // SAFETY: as above.
        let child = unsafe { libc::fork() };
        if child == 0 {
            assert_eq!(process_startup(), None);
            std::process::exit(0);
        }
        // SAFETY: as above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the second child's assert held");
    }

    /// Activates, records, steps, and reports, as a training does.
    fn train(directory: &Path, name: &str) {
        let simple = SimpleProfiler::new().dirpath(directory).filename(name);
        let advanced = AdvancedProfiler::new().dirpath(directory).filename(name);
        let tensor = TensorProfiler::new().profile_memory(true).dirpath(directory).filename(name);
        let profilers: [Arc<dyn Profiler>; 3] =
            [Arc::new(simple), Arc::new(advanced), Arc::new(tensor)];
        for profiler in profilers {
            profiler.setup(Stage::Fit, &RunContext::default());
            let active = activate(profiler.clone());
            for step in 0..6 {
                let _batch = profile!("run_training_batch");
                let op = Action::op(if step % 2 == 0 { "an::op" } else { "another::op" });
                let op = OpScope::open(&OpStart::new(op));
                drop(profile_dynamic!(format!("{name} {step}")));
                op.into_iter().for_each(OpScope::close);
                profiler.step();
            }
            drop(active);
            assert!(!profiler.summary().is_empty());
            assert!(profiler.report().is_some());
            profiler.describe();
        }
    }

    /// Each child does the same as the threads that were at it when it was made.
    fn forks_while_others_work() {
        const CHILDREN: usize = 150;
        /// Rather than for ever.
        const SECONDS: u32 = 20;
        let directory = tempfile::tempdir().expect("a folder");
        let is_over = AtomicBool::new(false);
        let mut hung = 0;
        std::thread::scope(|threads| {
            for number in 0..3 {
                let (directory, is_over) = (directory.path(), &is_over);
                threads.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        train(directory, &format!("thread-{number}"));
                    }
                });
            }
            for child in 0..CHILDREN {
                // SAFETY: the child uses what this crate keeps free for it, and ends.
                let process = unsafe { libc::fork() };
                assert!(process >= 0, "fork");
                if process == 0 {
                    // SAFETY: as above; the alarm ends it by SIGALRM.
                    unsafe { libc::alarm(SECONDS) };
                    train(directory.path(), &format!("child-{child}"));
                    // SAFETY: without the parent's exit handlers.
                    unsafe { libc::_exit(0) };
                }
                let mut status = 0;
                // SAFETY: waits for the child that was just made.
                assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
                hung += usize::from(libc::WIFSIGNALED(status));
                assert!(libc::WIFSIGNALED(status) || status == 0, "{status}");
                if hung >= 3 {
                    break; // that is enough to know
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        println!("{hung} children hung");
    }

    fn too_many_files() {
        let profiler = SimpleProfiler::new().measure_io();
        let limit = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
        // SAFETY: `limit` is valid for reading.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        for _ in 0..3 {
            drop(profiler.profile("step"));
        }
        print(profiler.snapshot());
        print!("{}", profiler.summary());
    }

    fn ranks() {
        for _ in 0..3 {
            let run = RunContext::from_environment();
            println!("rank {} {} of {}", run.rank, run.local_rank, run.world_size);
        }
        let profiler = SimpleProfiler::new();
        drop(profiler.profile("step"));
        profiler.describe();
    }
}

#[cfg(target_os = "linux")]
mod checks {
    use std::process::{Command, Output};

    use profiler_core::report::{AdvancedReport, SimpleReport};
    use serde_json::from_str;

    pub fn all() {
        start_up_is_in_the_first_report_alone();
        what_was_before_main_is_told_apart();
        under_cargo_run_only_what_came_after_main_is_counted();
        a_process_that_was_turned_into_the_program_counts_from_its_start();
        the_advanced_report_has_it_as_an_action();
        a_worker_may_be_first();
        a_forked_child_has_no_start_up();
        no_forked_child_hangs();
        counters_that_cannot_be_read_are_a_note();
        ranks_that_make_no_sense_are_said_once();
        println!("process: all scenes went as they should");
    }

    fn command(scene: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("its own path"));
        command.env("MLPROF_TEST_SCENE", scene);
        for (name, _) in std::env::vars() {
            let launchers = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_"];
            if launchers.iter().any(|launcher| name.starts_with(launcher)) {
                command.env_remove(name);
            }
        }
        command
    }

    fn output(mut command: Command) -> Output {
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{output:#?}");
        output
    }

    fn lines(command: Command) -> Vec<String> {
        let output = output(command);
        assert!(output.stderr.is_empty(), "{output:#?}");
        String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
    }

    fn names(report: &SimpleReport) -> Vec<&str> {
        report.actions.iter().map(|row| row.action.as_str()).collect()
    }

    fn start_up_is_in_the_first_report_alone() {
        let lines = lines(command("stages"));
        let [fit, other, lightning, detailed, test] = lines.as_slice() else {
            panic!("{lines:#?}")
        };
        let fit: SimpleReport = from_str(fit).expect("a report");
        let startup = fit.header.startup.expect("known");
        let before_main = startup.before_main_seconds.expect("known");
        assert!((0.1..60.0).contains(&startup.total_seconds), "{startup:?}");
        assert!(before_main > 0.0 && before_main + 0.1 <= startup.total_seconds, "{startup:?}");
        let row = |name: &str| {
            let row = fit.actions.iter().find(|row| row.action == name).expect("the row");
            (row.calls, row.total_seconds, row.self_seconds, row.first_seconds, row.rest)
        };
        let total = startup.total_seconds;
        assert_eq!(row("process_startup"), (1, total, total - before_main, total, None));
        let part = (1, before_main, before_main, before_main, None);
        assert_eq!(row("process_startup_before_main"), part);
        assert_eq!(fit.actions.len(), 4, "{:?}", names(&fit));
        assert!(fit.actions.is_sorted_by(|a, b| a.total_seconds >= b.total_seconds));
        assert_eq!(fit.header.overhead.scopes, 2, "nobody measured start-up");
        assert_eq!(fit.threads[0].actions.len(), 2, "it is no thread's");

        let other: SimpleReport = from_str(other).expect("a report");
        assert_eq!(names(&other), ["other"], "not in another profiler's");
        let test: SimpleReport = from_str(test).expect("a report");
        assert_eq!(names(&test), ["test_step"], "not in a later stage's");
        assert_eq!(test.header.startup, None);

        let lightning: String = from_str(lightning).expect("text");
        assert!(lightning.contains("|  process_startup            \t|"), "{lightning}");
        let detailed: String = from_str(detailed).expect("text");
        assert!(detailed.contains("\nStart-up    "), "{detailed}");
        assert!(!detailed.contains("process_startup"), "{detailed}");
    }

    fn what_was_before_main_is_told_apart() {
        let mut slow = command("stages");
        slow.env("MLPROF_TEST_SLOW_START", "1");
        let fit: SimpleReport = from_str(&lines(slow)[0]).expect("a report");
        let startup = fit.header.startup.expect("known");
        let before_main = startup.before_main_seconds.expect("known");
        assert!((0.2..30.0).contains(&before_main), "{startup:?}");
        assert!(startup.after_main_seconds() >= 0.1, "{startup:?}");
    }

    /// Cargo's variable, and from nobody else: then cargo has turned into this process.
    fn under_cargo_run_only_what_came_after_main_is_counted() {
        let mut by_cargo = command("stages");
        by_cargo.env("CARGO_MANIFEST_DIR", "/of/another/package");
        by_cargo.env("MLPROF_TEST_SLOW_START", "1");
        let fit: SimpleReport = from_str(&lines(by_cargo)[0]).expect("a report");
        let startup = fit.header.startup.expect("known from main");
        assert_eq!(startup.before_main_seconds, None);
        assert!((0.1..30.0).contains(&startup.total_seconds), "{startup:?}");
        assert!(!names(&fit).contains(&"process_startup_before_main"));
        assert!(names(&fit).contains(&"process_startup"));
    }

    /// As documented: Linux does not keep the time of `exec`.
    fn a_process_that_was_turned_into_the_program_counts_from_its_start() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 0.3; exec \"$0\""]).arg(std::env::current_exe().expect("a path"));
        shell.env("MLPROF_TEST_SCENE", "stages");
        let fit: SimpleReport = from_str(&lines(shell)[0]).expect("a report");
        let startup = fit.header.startup.expect("known");
        assert!(startup.before_main_seconds.is_some_and(|part| part >= 0.29), "{startup:?}");
    }

    fn the_advanced_report_has_it_as_an_action() {
        let lines = lines(command("advanced"));
        let report: AdvancedReport = from_str(&lines[0]).expect("a report");
        let startup = report.header.startup.expect("known");
        let action = report.actions.iter().find(|action| action.action == "process_startup");
        let action = action.expect("the action");
        assert_eq!((action.calls, action.total_seconds), (1, startup.total_seconds));
        let [whole, part] = action.functions.as_slice() else { panic!("{action:?}") };
        assert_eq!(whole.calls.cumulative_seconds, startup.total_seconds);
        assert_eq!(Some(part.calls.self_seconds), startup.before_main_seconds);
        assert_eq!(part.callers[0].caller, whole.function);
        assert_eq!(report.threads.len(), 1);
        assert_eq!(report.threads[0].roots.len(), 1, "it is no thread's");
        let text = lines[1..].join("\n");
        assert!(text.contains("Profile stats for: process_startup rank: 0"), "{text}");
        assert!(text.contains(" process_startup_before_main\n"), "{text}");
    }

    fn a_worker_may_be_first() {
        let report: SimpleReport = from_str(&lines(command("worker first"))[0]).expect("a report");
        assert_eq!(report.actions.len(), 4, "{:?}", names(&report));
    }

    fn a_forked_child_has_no_start_up() {
        let report: SimpleReport = from_str(&lines(command("forked"))[0]).expect("a report");
        assert_eq!(names(&report), ["in_the_child"]);
        assert_eq!(report.header.startup, None);
    }

    fn no_forked_child_hangs() {
        // On standard error each child says what its reports are without.
        let output = output(command("forks while others work"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0 children hung\n", "{output:#?}");
    }

    fn counters_that_cannot_be_read_are_a_note() {
        let lines = lines(command("too many files"));
        let report: SimpleReport = from_str(&lines[0]).expect("a report");
        let step = report.actions.iter().find(|row| row.action == "step").expect("the row");
        assert_eq!((step.calls, step.io), (3, None), "its time is there all the same");
        let [note] = report.header.notes.as_slice() else { panic!("{:?}", report.header.notes) };
        assert!(note.contains("cannot read /proc/thread-self/io: "), "{note}");
        assert!(lines.last().is_some_and(|line| line == &format!("Note: {note}")), "{lines:#?}");
    }

    fn ranks_that_make_no_sense_are_said_once() {
        let mut wrong = command("ranks");
        wrong.env("RANK", "2").env("WORLD_SIZE", "2");
        let output = output(wrong);
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(stdout.starts_with("rank 0 0 of 1\nrank 0 0 of 1\n"), "{stdout}");
        assert!(stdout.contains("Profiler Report"), "the only process prints: {stdout}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with("warning: RANK is \"2\" and WORLD_SIZE \"2\""), "{stderr}");
        let mut right = command("ranks");
        right.env("RANK", "1").env("LOCAL_RANK", "0").env("WORLD_SIZE", "2");
        let lines = lines(right);
        assert_eq!(lines, ["rank 1 0 of 2"; 3], "and no report: the console is rank 0's");
    }
}
