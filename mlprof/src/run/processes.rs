//! Reports processes that ended without a report.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mlprof_events::run::{ProcessRecord, ProgramRecord};
use signal_hook::low_level::signal_name;

use super::child::Ended;
use super::say;

/// Maximum length of a process name in Linux.
const LONGEST_NAME: usize = 15;

/// Summary of the measured processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// Set when at least one process was measured.
    pub any: bool,
    /// Set when a process ended without a report.
    pub is_lost: bool,
}

/// Prints how measured processes without a report ended. `new` contains the paths of the result
/// files.
pub fn tell(folder: &Path, command: &Ended, new: &[PathBuf]) -> Measured {
    let records = ProcessRecord::read_all(folder).unwrap_or_default();
    let lost: BTreeSet<String> = records
        .iter()
        .flat_map(|record| {
            let programs = record.programs.iter().enumerate();
            let lost = programs.filter(|(_, program)| !program.has_reported);
            lost.map(|(at, program)| {
                let next = record.programs.get(at + 1);
                let is_it = command.process == record.process && record.is_of_this_container();
                let command = Some(command).filter(|_| is_it);
                let (process, name) = (record.process, name_of(program));
                let part = program.results.as_ref().map(|results| format!("{results}-"));
                let is_its = |path: &PathBuf| {
                    part.as_ref().is_some_and(|part| path.to_string_lossy().contains(part))
                };
                let what_is_left = match new.iter().any(is_its) {
                    true => "only the results that it wrote during the run are available",
                    false => "its measurements are lost",
                };
                let reason = reason(program, next, command);
                format!("process {process} ({name}) {reason}: {what_is_left}")
            })
        })
        .collect();
    lost.iter().for_each(|line| say(line));
    let any = records.iter().any(|record| !record.programs.is_empty());
    Measured { any, is_lost: !lost.is_empty() }
}

fn name_of(program: &ProgramRecord) -> String {
    program.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn reason(
    program: &ProgramRecord,
    next: Option<&ProgramRecord>,
    command: Option<&Ended>,
) -> String {
    if let Some(next) = next {
        return format!("was replaced by {} (exec)", name_of(next));
    }
    if let Some(signal) = program.signal {
        return format!(
            "was ended by {} during an operation that its report needs to finish",
            named(signal)
        );
    }
    let Some(command) = command else {
        return "ended without a report, because of a signal such as SIGKILL, `_exit` or `exec`"
            .to_owned();
    };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&command.status) {
        return format!("was ended by {}", named(signal));
    }
    let own: String = name_of(program).chars().take(LONGEST_NAME).collect();
    if !command.name.is_empty() && command.name != own {
        return format!("was replaced by {} (exec)", command.name);
    }
    let code = command.status.code().unwrap_or_default();
    format!("ended by `_exit` ({code}), which prevents a report")
}

fn named(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}
