//! Commands, one after the other or beside each other: each is shown, timed, and named when it fails.

use std::env;
use std::ffi::OsString;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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
    /// A cargo command; `arguments` are separated by spaces.
    pub fn cargo(title: impl Into<String>, arguments: &str) -> Self {
        let title = title.into();
        let arguments = arguments.split_whitespace().map(OsString::from).collect();
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
        let mut command = self.command();
        let ran = match shown {
            Shown::AtOnce => command.status().map(|status| (status, String::new())),
            Shown::AtTheEnd => command.output().map(|output| {
                let printed = [output.stdout, output.stderr].concat();
                let printed = String::from_utf8_lossy(&printed).into_owned();
                print!("{printed}");
                (output.status, printed)
            }),
        };
        let (status, printed) = ran.map_err(|error| format!("cannot run cargo: {error}"))?;
        if !status.success() {
            return Err(format!("{} ({status})\n{}", self.title, last_lines(&printed)));
        }
        self.conclusion.map_or(Ok(()), |conclude| conclude())
    }

    fn timed(&self, shown: Shown) -> (Result<(), String>, Duration) {
        let start = Instant::now();
        let result = self.run(shown);
        (result, start.elapsed())
    }
}

/// Returns the last lines of what a failed step printed. The output of other steps follows it, and
/// a shortened log keeps only its end.
fn last_lines(printed: &str) -> &str {
    const LINES: usize = 40;
    let start = printed.trim_end().rmatch_indices('\n').nth(LINES - 1);
    printed[start.map_or(0, |(newline, _)| newline + 1)..].trim_end()
}

/// How many tests the output of `--list` names.
fn count_tests(list: &str) -> usize {
    list.lines().filter(|line| line.ends_with(": test")).count()
}

/// Runs all steps, up to the first that fails, and says how long each took.
pub fn run_all(steps: &[Step]) -> Result<(), String> {
    let start = Instant::now();
    let mut times: Vec<(&str, Duration)> = Vec::new();
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
                let (index, count) = (times.len(), steps.len());
                return Err(format!("step {index} of {count} failed: {message}"));
            }
        }
    }
    println!("\nAll {} steps passed:", steps.len());
    for (title, time) in &times {
        println!("{:>8.1} s  {title}", time.as_secs_f64());
    }
    println!("{:>8.1} s  together", start.elapsed().as_secs_f64());
    Ok(())
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
    fn the_last_lines_are_at_most_forty() {
        let printed: String = (0..50).map(|line| format!("line {line}\n")).collect();
        assert_eq!(last_lines(&printed).lines().count(), 40);
        assert!(last_lines(&printed).starts_with("line 10\n"));
        assert_eq!(last_lines("one\ntwo\n"), "one\ntwo");
        assert_eq!(last_lines(""), "");
    }

    #[test]
    fn the_first_step_that_fails_is_named() {
        let steps = [
            Step::cargo("the version", "--version"),
            Step::cargo("nonsense", "no-such-command-of-cargo"),
            Step::cargo("never reached", "--version"),
        ];
        let message = run_all(&steps).expect_err("the second fails");
        assert!(message.starts_with("step 2 of 3 failed: nonsense"), "{message}");
    }
}
