//! Profiler settings from environment variables. They override the program's settings.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::Schedule;
use crate::forking::made_once;

/// Values of this process's environment variables. A field is `None` if its variable is unset or
/// empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// `MLPROF_PROFILER`: name of the profiler to use.
    pub profiler: Option<String>,
    /// `MLPROF_DIRPATH`: directory for output files.
    pub dirpath: Option<PathBuf>,
    /// `MLPROF_FILENAME`: base name of output files.
    pub filename: Option<String>,
    /// `MLPROF_SCHEDULE`: schedule of the recorded steps.
    pub schedule: Option<Schedule>,
    /// `MLPROF_ALL_ROWS`: enables printing all rows of a table on the console.
    pub all_rows: Option<Switch>,
    /// `MLPROF_LIVE`: enables the socket for `mlprof ps` and similar commands.
    pub live: Option<Switch>,
    /// `MLPROF_METRICS_PORT`: port on which the process serves metrics to Prometheus.
    pub metrics_port: Option<Port>,
    /// `MLPROF_CAPTURE_PORT`: port on which the process serves CAPTURE PROFILE requests of
    /// TensorBoard and XProf.
    pub capture_port: Option<Port>,
    /// Error messages for variables that could not be parsed.
    pub problems: Vec<String>,
}

impl Environment {
    /// Returns the settings of this process, which are read once.
    pub fn get() -> &'static Self {
        static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
        made_once(&ENVIRONMENT, || Self::of(variable))
    }

    fn of(value: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut problems = Vec::new();
        let value = |variable: &str| value(variable).filter(|value| !value.is_empty());
        Self {
            profiler: read(&value, "MLPROF_PROFILER", &mut problems),
            dirpath: value("MLPROF_DIRPATH").map(PathBuf::from),
            filename: read(&value, "MLPROF_FILENAME", &mut problems),
            schedule: read(&value, "MLPROF_SCHEDULE", &mut problems),
            all_rows: read(&value, "MLPROF_ALL_ROWS", &mut problems),
            live: read(&value, "MLPROF_LIVE", &mut problems),
            metrics_port: read(&value, "MLPROF_METRICS_PORT", &mut problems),
            capture_port: read(&value, "MLPROF_CAPTURE_PORT", &mut problems),
            problems,
        }
    }

    /// Returns `true` if no variable is set.
    pub fn is_silent(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the value of an environment variable.
///
/// Returns `None` in a program with more rights than the user who started it (setuid, setgid, file
/// capabilities). That user controls the environment, and variables name libraries to load and
/// folders to write to. C libraries ignore `LD_PRELOAD` there for the same reason.
pub fn variable(name: &str) -> Option<OsString> {
    if has_more_rights_than_its_user() { None } else { std::env::var_os(name) }
}

/// Returns all variables for which [`variable`] returns a value.
pub fn variables() -> Vec<(OsString, OsString)> {
    if has_more_rights_than_its_user() { Vec::new() } else { std::env::vars_os().collect() }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_more_rights_than_its_user() -> bool {
    // Miri does not support the function. SAFETY: `getauxval` takes a number by value and only
    // reads the auxiliary vector that the kernel passed to the process.
    !cfg!(miri) && unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn has_more_rights_than_its_user() -> bool {
    // SAFETY: these functions take no arguments, change no state and cannot fail.
    unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() }
}

#[cfg(not(unix))]
fn has_more_rights_than_its_user() -> bool {
    false
}

/// A setting that is on or off, written as `1` or `0` or as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// `1`, `on`, `true` or `yes`.
    On,
    /// `0`, `off`, `false` or `no`.
    Off,
}

impl FromStr for Switch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "on" | "true" | "yes" => Ok(Self::On),
            "0" | "off" | "false" | "no" => Ok(Self::Off),
            _ => Err("it is neither 1 (on) nor 0 (off)"),
        }
    }
}

/// A port of this machine. 0 stands for any free port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port(pub u16);

impl FromStr for Port {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse()
            .map(Self)
            .map_err(|_| "the value must be a port number up to 65535 (0: any free port)")
    }
}

/// Parses the value of a variable, if the variable is set. If it cannot be parsed, adds a message
/// to `problems` and returns `None`.
fn read<T: FromStr<Err: Display>>(
    value: &impl Fn(&str) -> Option<OsString>,
    variable: &str,
    problems: &mut Vec<String>,
) -> Option<T> {
    let value = value(variable)?;
    let Some(text) = value.to_str() else {
        problems.push(format!("{variable}={}: the value is not UTF-8", value.display()));
        return None;
    };
    let parsed = text.trim().parse();
    parsed.map_err(|error| problems.push(format!("{variable}={text}: {error}"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(set: &[(&str, &str)]) -> Environment {
        let find = |name: &str| set.iter().find(|(set, _)| *set == name);
        Environment::of(|name| find(name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn empty_variables_count_as_unset() {
        assert!(environment(&[("MLPROF_PROFILER", ""), ("MLPROF_DIRPATH", "")]).is_silent());
        let said = environment(&[
            ("MLPROF_PROFILER", " simple+nvtx "),
            ("MLPROF_DIRPATH", "logs/a b"),
            ("MLPROF_FILENAME", "run"),
            ("MLPROF_SCHEDULE", "wait=1,warmup=1,active=3,repeat=2,skip_first=10"),
            ("MLPROF_ALL_ROWS", "on"),
            ("MLPROF_LIVE", "1"),
            ("MLPROF_METRICS_PORT", "9464"),
            ("MLPROF_CAPTURE_PORT", "6009"),
        ]);
        let schedule = Schedule::new().wait(1).warmup(1).active(3).repeat(2).skip_first(10);
        let expected = Environment {
            profiler: Some("simple+nvtx".into()),
            dirpath: Some("logs/a b".into()),
            filename: Some("run".into()),
            schedule: Some(schedule),
            all_rows: Some(Switch::On),
            live: Some(Switch::On),
            metrics_port: Some(Port(9464)),
            capture_port: Some(Port(6009)),
            problems: Vec::new(),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn unreadable_variables_are_reported_and_others_apply() {
        let live = environment(&[("MLPROF_LIVE", "perhaps")]);
        assert_eq!(live.problems, ["MLPROF_LIVE=perhaps: it is neither 1 (on) nor 0 (off)"]);
        let port = environment(&[("MLPROF_CAPTURE_PORT", "65536")]);
        let problem = "MLPROF_CAPTURE_PORT=65536: the value must be a port number up to 65535 (0: any free port)";
        assert_eq!(port.problems, [problem]);
        let said = environment(&[("MLPROF_SCHEDULE", "activ=2"), ("MLPROF_FILENAME", "run")]);
        assert_eq!((said.schedule, said.filename.as_deref()), (None, Some("run")));
        let [problem] = said.problems.as_slice() else { panic!("{said:?}") };
        assert!(
            problem.starts_with("MLPROF_SCHEDULE=activ=2: cannot parse \"activ\""),
            "{problem}"
        );
    }
}
