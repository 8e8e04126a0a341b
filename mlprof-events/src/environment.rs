//! What the environment says of profilers, over what the program says.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::Schedule;
use crate::forking::made_once;

/// What the variables of this process say, each if it is set and not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// `MLPROF_PROFILER`: what is measured with, by name.
    pub profiler: Option<String>,
    /// `MLPROF_DIRPATH`: the directory of files.
    pub dirpath: Option<PathBuf>,
    /// `MLPROF_FILENAME`: what files are called.
    pub filename: Option<String>,
    /// `MLPROF_SCHEDULE`: the steps that are recorded.
    pub schedule: Option<Schedule>,
    /// `MLPROF_ALL_ROWS`: whether the console shows all rows of a table.
    pub all_rows: Option<Switch>,
    /// `MLPROF_LIVE`: whether the process listens to `mlprof ps` and its like.
    pub live: Option<Switch>,
    /// `MLPROF_METRICS_PORT`: where the process answers Prometheus.
    pub metrics_port: Option<Port>,
    /// `MLPROF_CAPTURE_PORT`: where the process answers TensorBoard's and XProf's CAPTURE PROFILE.
    pub capture_port: Option<Port>,
    /// Variables that could not be read, and why.
    pub problems: Vec<String>,
}

impl Environment {
    /// That of this process, read once.
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

    /// Whether it says nothing.
    pub fn is_silent(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns a variable of the environment.
///
/// In a program that has more rights than the user who started it (setuid, setgid, capabilities of
/// the file) it returns `None`: that user chooses the environment, and variables name libraries to
/// load and folders to write into. C libraries ignore `LD_PRELOAD` there for the same reason.
pub fn variable(name: &str) -> Option<OsString> {
    if has_more_rights_than_its_user() { None } else { std::env::var_os(name) }
}

/// Returns all variables for which [`variable`] returns a value.
pub fn variables() -> Vec<(OsString, OsString)> {
    if has_more_rights_than_its_user() { Vec::new() } else { std::env::vars_os().collect() }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_more_rights_than_its_user() -> bool {
    // Miri does not know the function.
    // SAFETY: `getauxval` takes a number and only reads what the kernel gave the process.
    !cfg!(miri) && unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn has_more_rights_than_its_user() -> bool {
    // SAFETY: these functions take no arguments, change nothing and cannot fail.
    unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() }
}

#[cfg(not(unix))]
fn has_more_rights_than_its_user() -> bool {
    false
}

/// Something that is on or off: `1` and `0`, or a word for them.
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

/// A port of this machine; 0: any that is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port(pub u16);

impl FromStr for Port {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse()
            .map(Self)
            .map_err(|_| "it is no port, a number up to 65535 (0: any that is free)")
    }
}

/// What a variable says, if it is set; else a problem is added.
fn read<T: FromStr<Err: Display>>(
    value: &impl Fn(&str) -> Option<OsString>,
    variable: &str,
    problems: &mut Vec<String>,
) -> Option<T> {
    let value = value(variable)?;
    let Some(text) = value.to_str() else {
        problems.push(format!("{variable}={}: it is not UTF-8", value.display()));
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
    fn what_is_set_is_read_and_what_is_empty_is_not_set() {
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
    fn what_cannot_be_read_is_a_problem_and_the_rest_holds() {
        let live = environment(&[("MLPROF_LIVE", "perhaps")]);
        assert_eq!(live.problems, ["MLPROF_LIVE=perhaps: it is neither 1 (on) nor 0 (off)"]);
        let port = environment(&[("MLPROF_CAPTURE_PORT", "65536")]);
        let problem =
            "MLPROF_CAPTURE_PORT=65536: it is no port, a number up to 65535 (0: any that is free)";
        assert_eq!(port.problems, [problem]);
        let said = environment(&[("MLPROF_SCHEDULE", "activ=2"), ("MLPROF_FILENAME", "run")]);
        assert_eq!((said.schedule, said.filename.as_deref()), (None, Some("run")));
        let [problem] = said.problems.as_slice() else { panic!("{said:?}") };
        assert!(problem.starts_with("MLPROF_SCHEDULE=activ=2: \"activ\" is no part"), "{problem}");
    }
}
