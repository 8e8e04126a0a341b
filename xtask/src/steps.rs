//! Commands that run in sequence or in parallel. Each is shown, timed, and named if it fails.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::libtorch::Variables;

/// One command and its purpose.
pub struct Step {
    title: String,
    /// The program, if it is not cargo.
    program: Option<&'static str>,
    arguments: Vec<OsString>,
    environment: Variables,
    preparation: Option<fn() -> Result<(), String>>,
    conclusion: Option<fn() -> Result<(), String>>,
    must_run_tests: bool,
    is_beside: bool,
}

/// The time at which a step's output is shown.
#[derive(Clone, Copy)]
enum Shown {
    AtOnce,
    /// The output is shown at the end, so that the outputs of parallel steps are not mixed.
    AtTheEnd,
}

impl Step {
    /// Creates a cargo command with space-separated `arguments`. All test programs run, even if one
    /// of them fails.
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

    /// Creates a rustup command, for another toolchain than the current one.
    pub fn rustup(title: impl Into<String>, arguments: &str) -> Self {
        Self { program: Some("rustup"), ..Self::cargo(title, arguments) }
    }

    /// Adds one argument, which may contain spaces.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable of the command.
    pub fn env(self, name: &'static str, value: &str) -> Self {
        self.variables(&vec![(name, Some(value.into()))])
    }

    /// Sets several environment variables.
    pub fn variables(mut self, variables: &Variables) -> Self {
        self.environment.extend_from_slice(variables);
        self
    }

    /// Sets a function that runs before the command, as part of the step.
    pub fn after(mut self, preparation: fn() -> Result<(), String>) -> Self {
        self.preparation = Some(preparation);
        self
    }

    /// Sets a function that runs after the command has succeeded, as part of the step.
    pub fn and_then(mut self, conclusion: fn() -> Result<(), String>) -> Self {
        self.conclusion = Some(conclusion);
        self
    }

    /// Makes the step fail if no test ran. Otherwise, a filter without matches would look like
    /// success.
    pub fn must_run_tests(mut self) -> Self {
        self.must_run_tests = true;
        self
    }

    /// Returns the step's title.
    #[cfg(test)]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Runs the step in parallel with the previous one. It suits programs that wait or use one
    /// core. The output is shown at the end.
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
                return Err(format!("unknown test {}", self.title));
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

/// Runs a command and returns its output. If the output is not shown immediately, both streams are
/// returned. Otherwise, cargo's messages and the output of test programs without libtest are shown
/// as they come.
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

/// Returns the output of each test program about its failed tests, or the last lines otherwise. It
/// is printed at the end, because other steps' output follows the original, and a truncated log
/// keeps only its end.
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

/// Returns the number of tests in the output of `--list`.
fn count_tests(list: &str) -> usize {
    list.lines().filter(|line| line.ends_with(": test")).count()
}

/// Runs all steps, even after a failure, and prints each step's duration and the failed steps.
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

/// Runs all steps in parallel. Returns their results and durations in the original order.
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

/// Returns a cargo command without the variables that `cargo run` set to describe this program.
/// Build scripts that depend on such variables would otherwise run again after each different cargo
/// call.
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

/// Sets these variables for a command, and removes those without a value.
pub fn set_variables(command: &mut Command, variables: &Variables) {
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// Returns the build folder in which this program was built.
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
        // Each step creates a pipe that the other one opens, and ends only when the other one is
        // running.
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
