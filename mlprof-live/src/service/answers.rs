//! Answers that need no waiting: the state, the current reports and the open actions of threads.

use std::sync::Arc;

use mlprof_core::spliced::{lines_and_samples_so_far, profiler_of_run};
use mlprof_core::watcher::measuring;
use mlprof_core::{Profiler, ProfilerExt, Report};
use mlprof_events::live::{
    Answer, Dump, OpenAction, OpenThread, ProcessState, VERSION, own_namespace,
};
use mlprof_events::program_name;

use crate::process_memory::process_memory;
use crate::watcher::Watcher;
use crate::{launch, samples};

pub(crate) fn state(watcher: &Watcher) -> ProcessState {
    let (trainings, is_recording) = watcher.states();
    let kind = |profiler: &Arc<dyn Profiler>| {
        profiler.output().and_then(|output| output.kind()).unwrap_or("other").to_owned()
    };
    let measuring = all_measuring();
    ProcessState {
        version: VERSION,
        process: std::process::id(),
        namespace: own_namespace(),
        program: program_name().unwrap_or_default(),
        profilers: measuring.iter().filter(|it| it.is_enabled()).map(kind).collect(),
        is_recording,
        trainings,
        memory: process_memory(),
        activity: None,
        parent: launch::parent(),
        launch: launch::launch(),
    }
}

/// Returns the active profilers of the program and of `mlprof run`.
fn all_measuring() -> Vec<Arc<dyn Profiler>> {
    let mut all = measuring();
    if let Some(run) = profiler_of_run() {
        match run.parts() {
            [] => all.push(run),
            parts => all.extend(parts.iter().cloned()),
        }
    }
    all
}

fn reports() -> Vec<Report> {
    all_measuring().iter().filter_map(|profiler| profiler.report()).collect()
}

pub(super) fn report() -> Answer {
    let all = reports().into_iter().chain(lines_and_samples_so_far());
    let values: Result<Vec<_>, _> = all.map(|report| serde_json::to_value(&report)).collect();
    match values {
        Ok(reports) => Answer::Report { reports },
        Err(error) => Answer::Error { message: format!("cannot write the report: {error}") },
    }
}

pub(super) fn dump(with_stacks: bool) -> Dump {
    let reports = reports();
    let mut threads: Vec<OpenThread> = Vec::new();
    // Only the first report with open actions is used, because the other reports would repeat the
    // same ones.
    let open = reports.iter().map(Report::open).find(|open| !open.is_empty()).unwrap_or_default();
    for action in open {
        let entry = OpenAction { action: action.action.clone(), seconds: action.elapsed_seconds };
        match threads.iter_mut().find(|known| known.thread == action.thread) {
            Some(known) => known.open.push(entry),
            None => threads.push(OpenThread { thread: action.thread.clone(), open: vec![entry] }),
        }
    }
    threads.iter_mut().for_each(|it| it.open.sort_by(|a, b| b.seconds.total_cmp(&a.seconds)));
    let knows = |report: &Report| {
        matches!(report, Report::Simple(_) | Report::Advanced(_) | Report::Memory(_))
    };
    let mut notes = Vec::new();
    if !reports.iter().any(knows) {
        let note = "open actions are unknown, because the process has no active Simple or Advanced profiler";
        notes.push(note.to_owned());
    }
    let stacks = match with_stacks.then(samples::stacks) {
        Some(Ok(stacks)) => stacks,
        Some(Err(why)) => {
            notes.push(format!("stacks are not available: {why}"));
            Vec::new()
        }
        None => Vec::new(),
    };
    Dump { threads, stacks, notes }
}
