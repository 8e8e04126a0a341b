//! Processes that ended without a report.

use std::collections::BTreeSet;
use std::path::Path;

use profiler_core::spliced::{ProcessRecord, ProgramRecord};
use signal_hook::low_level::signal_name;

use super::child::Ended;
use super::say;

/// How long a name may be that the system keeps of a process.
const LONGEST_NAME: usize = 15;

/// Says how processes ended that were measured and have not reported; whether there was any process
/// that was measured.
pub fn tell(folder: &Path, command: &Ended) -> bool {
    let records = ProcessRecord::read_all(folder).unwrap_or_default();
    let lost: BTreeSet<String> = records
        .iter()
        .flat_map(|record| {
            let programs = record.programs.iter().enumerate();
            let lost = programs.filter(|(_, program)| !program.has_reported);
            lost.map(|(at, program)| {
                let next = record.programs.get(at + 1);
                format!(
                    "process {} ({}) {}",
                    record.process,
                    name_of(program),
                    reason(program, next, Some(command).filter(|it| it.process == record.process))
                )
            })
        })
        .collect();
    lost.iter().for_each(|line| say(line));
    records.iter().any(|record| !record.programs.is_empty())
}

fn name_of(program: &ProgramRecord) -> String {
    program.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn reason(
    program: &ProgramRecord,
    next: Option<&ProgramRecord>,
    command: Option<&Ended>,
) -> String {
    const LOST: &str = "what it had done until then is lost";
    if let Some(next) = next {
        return format!("became {} by exec: {LOST}", name_of(next));
    }
    if let Some(signal) = program.signal {
        return format!(
            "was ended by {}, in the middle of something that its report needs: {LOST}",
            named(signal)
        );
    }
    let Some(command) = command else {
        return format!(
            "ended without a report, by a signal such as SIGKILL, by `_exit` or by becoming \
             another program (exec): {LOST}"
        );
    };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&command.status) {
        return format!("was ended by {}: {LOST}", named(signal));
    }
    let own: String = name_of(program).chars().take(LONGEST_NAME).collect();
    if !command.name.is_empty() && command.name != own {
        return format!("became {} by exec: {LOST}", command.name);
    }
    let code = command.status.code().unwrap_or_default();
    format!("ended by `_exit` ({code}), which leaves no time for a report: {LOST}")
}

fn named(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}
