//! Commands, one after the other or beside each other: each is shown, timed, and named when it fails.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::libtorch::Variables;

/// One command and what it is for.
pub struct Step {
    title: String,
    /// Another program than cargo.
    program: Option<&'static str>,
    arguments: Vec<OsString>,
    environment: Variables,
    preparation: Option<fn() -> Result<(), String>>,
    conclusion: Option<fn() -> Result<(), String>>,
    must_run_tests: bool,
    is_beside: bool,
}

/// When what a step says is shown.
#[derive(Clone, Copy)]
enum Shown {
    AtOnce,
    /// Of steps that run at the same time, so that each can be read.
    AtTheEnd,
}

impl Step {
    /// A cargo command; `arguments` are separated by spaces. All test programs run, also those after
    /// one that fails.
    pub fn cargo(title: impl Into<String>, arguments: &str) -> Self {
        let title = title.into();
        let mut arguments: Vec<_> = arguments.split_whitespace().map(OsString::from).collect();
        if arguments.first().is_some_and(|command| command == "test") {
            arguments.insert(1, "--no-fail-fast".into());
        }
        Self {
            title,
            program: None,
            arguments,
            environment: Variables::new(),
            preparation: None,
            conclusion: None,
            must_run_tests: false,
            is_beside: false,
        }
    }

    /// A rustup command, for another toolchain than the one that runs this.
    pub fn rustup(title: impl Into<String>, arguments: &str) -> Self {
        Self { program: Some("rustup"), ..Self::cargo(title, arguments) }
    }

    /// One more argument, which may hold anything.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// An environment variable of the command.
    pub fn env(self, name: &'static str, value: &str) -> Self {
        self.variables(&vec![(name, Some(value.into()))])
    }

    /// Several of them.
    pub fn variables(mut self, variables: &Variables) -> Self {
        self.environment.extend_from_slice(variables);
        self
    }

    /// What to do before the command, as part of the step.
    pub fn after(mut self, preparation: fn() -> Result<(), String>) -> Self {
        self.preparation = Some(preparation);
        self
    }

    /// What to do when the command has succeeded, as part of the step.
    pub fn and_then(mut self, conclusion: fn() -> Result<(), String>) -> Self {
        self.conclusion = Some(conclusion);
        self
    }

    /// Fails if no test ran: a filter that matches nothing would look like success.
    pub fn must_run_tests(mut self) -> Self {
        self.must_run_tests = true;
        self
    }

    /// What it is for.
    #[cfg(test)]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Runs at the same time as the step before it, for programs that wait, or keep one processor busy each. What it says is
    /// shown when it is over.
    pub fn beside(mut self) -> Self {
        self.is_beside = true;
        self
    }

    fn shown(&self) -> String {
        let environment = self.environment.iter().map(|(name, value)| match value {
            Some(value) => format!("{name}='{}' ", value.to_string_lossy()),
            None => format!("{name}= "),
        });
        let arguments = self.arguments.iter().map(|argument| argument.to_string_lossy());
        let arguments: Vec<_> = arguments.collect();
        let program = self.program.unwrap_or("cargo");
        format!("{}{program} {}", environment.collect::<String>(), arguments.join(" "))
    }

    fn command(&self) -> Command {
        let mut command = self.program.map_or_else(cargo, Command::new);
        command.args(&self.arguments);
        set_variables(&mut command, &self.environment);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, shown: Shown) -> Result<(), String> {
        if let Some(prepare) = self.preparation {
            prepare()?;
        }
        if self.must_run_tests {
            let list = self.command().args(["--", "--list"]).stderr(Stdio::inherit()).output();
            let list = list.map_err(|error| format!("cannot run cargo: {error}"))?;
            if !list.status.success() {
                return Err(format!("{} ({})", self.title, list.status));
            }
            if count_tests(&String::from_utf8_lossy(&list.stdout)) == 0 {
                return Err(format!("{}: there is no such test", self.title));
            }
        }
        let ran = run_shown(&mut self.command(), shown);
        let (status, printed) = ran.map_err(|error| format!("cannot run cargo: {error}"))?;
        if !status.success() {
            return Err(format!("{} ({status})\n{}", self.title, failures(&printed)));
        }
        self.conclusion.map_or(Ok(()), |conclude| conclude())
    }

    fn timed(&self, shown: Shown) -> (Result<(), String>, Duration) {
        let start = Instant::now();
        let result = self.run(shown);
        (result, start.elapsed())
    }
}

/// Runs a command and returns what it printed, of both streams if nothing was shown at once: what
/// cargo builds and what a test program without libtest says, the user sees as it comes.
fn run_shown(command: &mut Command, shown: Shown) -> std::io::Result<(ExitStatus, String)> {
    if let Shown::AtTheEnd = shown {
        let output = command.output()?;
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        print!("{printed}");
        return Ok((output.status, printed));
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut printed = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            printed.extend([&line, "\n"]);
        }
        std::io::stdout().flush()?;
    }
    Ok((child.wait()?, printed))
}

/// Returns what each test program said about its failed tests, or the last lines where none did: the
/// output of other steps follows it, and a shortened log keeps only its end.
fn failures(printed: &str) -> String {
    const LINES: usize = 40;
    let mut found = String::new();
    let mut rest = printed;
    while let Some(start) = rest.find("\nfailures:\n") {
        let section = &rest[start + 1..];
        let end = section.find("\ntest result: FAILED").map_or(section.len(), |end| end + 1);
        found.push_str(&section[..end]);
        rest = &section[end..];
    }
    if !found.is_empty() {
        return found.trim_end().to_owned();
    }
    let start = printed.trim_end().rmatch_indices('\n').nth(LINES - 1);
    printed[start.map_or(0, |(newline, _)| newline + 1)..].trim_end().to_owned()
}

/// How many tests the output of `--list` names.
fn count_tests(list: &str) -> usize {
    list.lines().filter(|line| line.ends_with(": test")).count()
}

/// Runs all steps, also those after one that fails, and says how long each took and which failed.
pub fn run_all(steps: &[Step]) -> Result<(), String> {
    let start = Instant::now();
    let mut times: Vec<(&str, Duration)> = Vec::new();
    let mut failed = Vec::new();
    for group in steps.chunk_by(|_, next| next.is_beside) {
        let first = times.len();
        for (index, step) in group.iter().enumerate() {
            println!("\n=== [{}/{}] {}", first + index + 1, steps.len(), step.title);
            println!("$ {}", step.shown());
        }
        for (step, (result, time)) in group.iter().zip(at_once(group)) {
            times.push((&step.title, time));
            println!("=== {} after {:.1} s", step.title, time.as_secs_f64());
            if let Err(message) = result {
                println!("=== {} FAILED", step.title);
                failed.push(format!("step {} of {} failed: {message}", times.len(), steps.len()));
            }
        }
    }
    match failed.len() {
        0 => println!("\nAll {} steps passed:", steps.len()),
        failed => println!("\n{failed} of {} steps failed:", steps.len()),
    }
    for (title, time) in &times {
        println!("{:>8.1} s  {title}", time.as_secs_f64());
    }
    println!("{:>8.1} s  together", start.elapsed().as_secs_f64());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n\n")) }
}

/// Runs all of them at the same time: their results and times, in their order.
fn at_once(steps: &[Step]) -> Vec<(Result<(), String>, Duration)> {
    let Some((first, others)) = steps.split_first() else { return Vec::new() };
    thread::scope(|scope| {
        let others: Vec<_> =
            others.iter().map(|step| scope.spawn(move || step.timed(Shown::AtTheEnd))).collect();
        let panicked = |_| (Err("the step panicked".to_owned()), Duration::ZERO);
        iter::once(first.timed(Shown::AtOnce))
            .chain(others.into_iter().map(|other| other.join().unwrap_or_else(panicked)))
            .collect()
    })
}

/// Cargo, free of what `cargo run` told this program about itself: build scripts that look at
/// such variables would otherwise run again for every other way of calling cargo.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let own = name.to_string_lossy();
        if own.starts_with("CARGO_PKG_") || own.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Gives a command these variables, and takes those away that have no value.
pub fn set_variables(command: &mut Command, variables: &Variables) {
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// The folder of build output that this program was built in.
pub fn target_directory() -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    // <target>/<profile>/xtask
    own.ancestors().nth(2).map_or_else(|| PathBuf::from("target"), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtorch::scratch::Scratch;

    #[test]
    fn tests_are_counted_in_the_output_of_list() {
        let list = "recorder::loom::merge: test\nlib::bench: benchmark\n\n1 test, 1 benchmark\n";
        assert_eq!(count_tests(list), 1);
        assert_eq!(count_tests("\n0 tests, 0 benchmarks\n"), 0);
    }

    #[test]
    fn a_step_is_shown_as_one_would_type_it() {
        let step = Step::cargo("documentation", "doc --no-deps").env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(step.shown(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[test]
    fn variables_are_given_and_taken_away() {
        let mut command = Command::new("true");
        set_variables(&mut command, &vec![("A", Some("1".into())), ("B", None)]);
        let variables: Vec<_> = command.get_envs().collect();
        assert_eq!(variables, [("A".as_ref(), Some("1".as_ref())), ("B".as_ref(), None)]);
    }

    #[test]
    fn a_step_whose_preparation_fails_does_not_run() {
        let step = Step::cargo("x", "--version").after(|| Err("not ready".to_owned()));
        assert_eq!(run_all(&[step]), Err("step 1 of 1 failed: not ready".to_owned()));
    }

    #[test]
    fn a_step_whose_conclusion_fails_has_failed() {
        let step = Step::cargo("x", "--version").and_then(|| Err("not as it should be".to_owned()));
        assert_eq!(run_all(&[step]), Err("step 1 of 1 failed: not as it should be".to_owned()));
    }

    #[test]
    fn steps_beside_each_other_wait_for_each_other() {
        let folder = Scratch::new("beside");
        // Each makes a pipe known to the other and ends only when that one is at work, too.
        let step = |own: &str, other: &str| {
            let script = "mkfifo $0/$1 2>&-; mkfifo $0/$2 2>&-; echo > $0/$1 & read line < $0/$2";
            let step = Step { program: Some("timeout"), ..Step::cargo("one of two", "60 sh -c") };
            step.argument(script).argument(folder.path()).argument(own).argument(other)
        };
        assert_eq!(run_all(&[step("a", "b"), step("b", "a").beside()]), Ok(()));
        let fails = Step::cargo("nonsense", "no-such-command-of-cargo").beside();
        let message = run_all(&[Step::cargo("the version", "--version"), fails]);
        let message = message.expect_err("the second fails");
        assert!(message.starts_with("step 2 of 2 failed: nonsense"), "{message}");
        assert!(message.contains("no-such-command-of-cargo"), "its output is repeated: {message}");
    }

    #[test]
    fn without_a_named_failure_the_last_forty_lines_are_repeated() {
        let printed: String = (0..50).map(|line| format!("line {line}\n")).collect();
        assert_eq!(failures(&printed).lines().count(), 40);
        assert!(failures(&printed).starts_with("line 10\n"));
        assert_eq!(failures("one\ntwo\n"), "one\ntwo");
        assert_eq!(failures(""), "");
    }

    #[test]
    fn failures_of_all_test_programs_are_repeated() {
        let program = |name: &str| {
            format!(
                "test {name} ... FAILED\n\nfailures:\n\n---- {name} stdout ----\nwhy\n\nfailures:\n    {name}\n\ntest result: FAILED. 0 passed\n"
            )
        };
        let printed = [&program("first"), "test other ... ok\n", &program("second")].concat();
        let failures = failures(&printed);
        assert!(failures.contains("---- first stdout ----\nwhy"), "{failures}");
        assert!(failures.ends_with("failures:\n    second"), "{failures}");
        assert!(!failures.contains("test other"), "{failures}");
    }

    #[test]
    fn each_step_that_fails_is_named_and_the_others_run() {
        let folder = Scratch::new("after-a-failure");
        let reached = folder.path().join("reached");
        let nonsense = || Step::cargo("nonsense", "no-such-command-of-cargo");
        let last = Step { program: Some("touch"), ..Step::cargo("the last", "") };
        let steps = [nonsense(), last.argument(&reached), nonsense()];
        let message = run_all(&steps).expect_err("two fail");
        assert!(message.starts_with("step 1 of 3 failed: nonsense"), "{message}");
        assert!(message.contains("\n\nstep 3 of 3 failed: nonsense"), "{message}");
        assert!(reached.exists());
    }
}
