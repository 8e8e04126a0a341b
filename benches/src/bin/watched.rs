//! Estimates the cost of monitoring per training step from three measurements:
//!
//! - the additional time of scopes in a process that accepts connections
//! - the additional time of scopes while `mlprof top` follows the process
//! - the CPU time of the thread that responds
//!
//! This method detects costs that are too small for a comparison between processes (`cargo xtask
//! bench live`).

#[cfg(not(unix))]
fn main() {
    eprintln!("error: live inspection requires Unix");
    std::process::exit(2);
}

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    watched::main()
}

#[cfg(unix)]
mod watched {
    use std::io::BufReader;
    use std::os::unix::net::UnixStream;
    use std::process::ExitCode;
    use std::thread::JoinHandle;
    use std::time::{Duration, Instant};

    use benches::conditions::Conditions;
    use benches::harness::{median, time, work};
    use benches::settings;
    use mlprof_core::{Output, ProfilerExt, RunContext, Session, SimpleProfiler, Stage, profile};
    use mlprof_events::live::{
        LONGEST_ANSWER, ProcessIdentity, Question, Request, connect, folders, read_line, write_line,
    };

    const USAGE: &str = "\
Measures the cost of live inspection for a training step: without and with a connected client.

Usage: watched [--scopes N] [--step-ms N] [--rounds N]

  --scopes N   scopes per step [default: 22]
  --step-ms N  duration of the step to which shares refer, in milliseconds [default: 3.1]
  --rounds N   number of measurements, whose medians are shown [default: 15]
";

    /// Number of steps between two clock readings, and number of such slices per turn.
    const STEPS: usize = 200;
    const SLICES: usize = 50;

    /// Interval between two responses, as `mlprof top` requests it.
    const INTERVAL: Duration = Duration::from_secs(1);

    struct Settings {
        scopes: usize,
        step_milliseconds: f64,
        rounds: usize,
    }

    fn options() -> Result<Option<Settings>, lexopt::Error> {
        use lexopt::prelude::*;

        let mut settings = Settings { scopes: 22, step_milliseconds: 3.1, rounds: 15 };
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("scopes") => settings.scopes = parser.value()?.parse::<usize>()?.max(1),
                Long("step-ms") => settings.step_milliseconds = parser.value()?.parse()?,
                Long("rounds") => settings.rounds = parser.value()?.parse::<usize>()?.max(1),
                Long("help") | Short('h') => return Ok(None),
                _ => return Err(argument.unexpected()),
            }
        }
        Ok(Some(settings))
    }

    pub fn main() -> ExitCode {
        let settings = match settings(options(), USAGE) {
            Ok(settings) => settings,
            Err(code) => return code,
        };
        match run(&settings) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// Appends the nanoseconds per step for many steps that contain only scopes.
    fn steps(is_measured: bool, scopes: usize, nanoseconds: &mut Vec<f64>) {
        // Reports go to standard error, so that only the results are on standard output.
        let simple = || SimpleProfiler::new().output_to(Output::new().print_to_stderr(true));
        let profiler = is_measured.then(simple);
        let session =
            Session::begin(profiler, Stage::Fit, &RunContext::default()).expect("a profiler");
        for slice in 0..=SLICES {
            let duration = time(STEPS, |call| {
                {
                    let _batch = profile!("run_training_batch");
                    for _ in 1..scopes {
                        let _scope = profile!("training_step");
                        work(call);
                    }
                }
                session.profiler().step();
            });
            // The first slice is a warm-up.
            if slice > 0 {
                nanoseconds.push(duration.as_nanos() as f64 / STEPS as f64);
            }
        }
    }

    /// A client that requests statistics from this process and reads the responses.
    struct Follower {
        stream: UnixStream,
        reader: JoinHandle<()>,
    }

    impl Follower {
        fn begin() -> Result<Self, String> {
            let (own, until) = (ProcessIdentity::own(), Instant::now());
            let connected = folders().iter().find_map(|it| connect(it, &own, until).ok());
            let stream = connected.ok_or("this process has no socket in any of its folders")?;
            let request = Request::Follow {
                interval_milliseconds: INTERVAL.as_millis() as u64,
                actions: true,
            };
            write_line(&stream, &Question::new(request)).map_err(|error| error.to_string())?;
            let copy = stream.try_clone().map_err(|error| error.to_string())?;
            let mut answers = BufReader::new(copy);
            // The process counts from this response on.
            let first = read_line(&mut answers, LONGEST_ANSWER);
            first.map_err(|error| error.to_string())?.ok_or("the process does not answer")?;
            let reader = std::thread::spawn(move || {
                while let Ok(Some(_)) = read_line(&mut answers, LONGEST_ANSWER) {}
            });
            Ok(Self { stream, reader })
        }

        /// Closes the connection, which the server notices before its next response.
        fn end(self) {
            // The call fails if the server has already closed the connection, which is acceptable.
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
            // The thread only reads, so its panic would not affect the results.
            let _ = self.reader.join();
            std::thread::sleep(2 * INTERVAL);
        }
    }

    /// Returns the CPU seconds of the responding thread, or `None` if the system does not report
    /// them.
    fn answering() -> Option<f64> {
        let tasks = std::fs::read_dir("/proc/self/task").ok()?;
        let mut nanoseconds = None;
        for task in tasks.filter_map(Result::ok) {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name)).ok();
            // Linux keeps only fifteen bytes of a thread name.
            if read("comm").is_some_and(|name| name.starts_with("mlprof-live-doo")) {
                let ran = read("schedstat")?.split_whitespace().next()?.parse::<f64>().ok()?;
                nanoseconds = Some(nanoseconds.unwrap_or(0.0) + ran);
            }
        }
        nanoseconds.map(|ran| ran / 1e9)
    }

    fn run(settings: &Settings) -> Result<(), String> {
        let [mut alone, mut listening, mut followed] = [(); 3].map(|()| [Vec::new(), Vec::new()]);
        let measure = |into: &mut [Vec<f64>; 2]| {
            for (is_measured, nanoseconds) in [false, true].into_iter().zip(into) {
                steps(is_measured, settings.scopes, nanoseconds);
            }
        };
        // The baseline is measured first, because a process cannot stop accepting connections.
        (0..settings.rounds).for_each(|_| measure(&mut alone));
        mlprof_live::start().map_err(|error| error.to_string())?;
        let (mut answers, mut seconds) = (0.0, 0.0);
        for _ in 0..settings.rounds {
            measure(&mut listening);
            let follower = Follower::begin()?;
            let (began, before) = (Instant::now(), answering());
            measure(&mut followed);
            std::thread::sleep(INTERVAL.saturating_sub(began.elapsed()) + INTERVAL / 2);
            if let Some((before, after)) = before.zip(answering()) {
                seconds += after - before;
                answers += (began.elapsed().as_secs_f64() / INTERVAL.as_secs_f64()).floor();
            }
            follower.end();
        }
        print!("{}", Conditions::here());
        println!("a step of {} scopes, in nanoseconds; medians\n", settings.scopes);
        let share = |nanoseconds: f64| nanoseconds / (settings.step_milliseconds * 1e4);
        let row = |name: &str, of: &[Vec<f64>; 2]| {
            let [none, simple] = [0, 1].map(|at| median(of[at].iter().copied()));
            let more = [
                none - median(alone[0].iter().copied()),
                simple - median(alone[1].iter().copied()),
            ];
            let more = more.map(|more| format!("{more:+.0} ({:+.4} %)", share(more)));
            println!("{name:<12} {none:>10.0} {:>22} {simple:>10.0} {:>22}", more[0], more[1]);
        };
        println!("{:<12} {:>33} {:>33}", "", "no profiler", "Simple");
        row("alone", &alone);
        row("listens", &listening);
        row("followed", &followed);
        println!("\nin brackets: share of a step of {} ms", settings.step_milliseconds);
        if answers > 0.0 {
            let each = seconds / answers;
            println!(
                "a reply takes {:.0} µs of mlprof's thread; one per second is {:.4} % of a core",
                each * 1e6,
                each * 100.0 / INTERVAL.as_secs_f64()
            );
        }
        Ok(())
    }
}
