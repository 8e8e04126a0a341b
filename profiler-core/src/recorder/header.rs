//! Report header shared by all recording profilers.

use super::Collected;
use crate::RunContext;
use crate::report::internals::{Missing, counted_were};
use crate::report::{
    OpenAction, OpenActionParts, OverheadParts, ReportHeader, ReportHeaderParts, SCHEMA_VERSION,
    StartupDurationsParts, Units,
};
use mlprof_events::OrderExt;
use mlprof_events::clock;

/// Returns the header of a report over `collected`, in which `scopes` scopes were recorded.
pub(crate) fn header<S>(
    collected: &Collected<S>,
    run: &RunContext,
    scopes: u64,
    seconds_per_scope: f64,
) -> ReportHeader {
    let unfinished: u64 = collected.parts.iter().map(|part| part.unfinished).sum();
    let mut notes = Vec::new();
    if !clock::IS_THERE {
        notes.push(Missing::Clock.to_string());
    }
    if unfinished > 0 {
        notes.push(format!(
            "{} still open when their threads ended; they are not in the rows",
            counted_were(unfinished, "call", "calls")
        ));
    }
    let open: usize = collected.parts.iter().map(|part| part.open.len()).sum();
    if open > MAX_OPEN {
        notes.push(format!(
            "{open} actions are still running; the report lists the {MAX_OPEN} oldest ones"
        ));
    }
    if collected.lost > 0 {
        notes.push(format!(
            "{} made by exiting threads or inside the profiler; they are not in the rows",
            counted_were(collected.lost, "call", "calls")
        ));
    }
    let missed: u64 = collected.parts.iter().map(|part| part.missed).sum();
    if missed > 0 {
        notes.push(format!(
            "{missed} calls were nested so deeply that the system had no memory to record them; \
             they are not in the rows, and their time counts for the enclosing calls"
        ));
    }
    notes.extend(clock::notes(collected.started, collected.ended));
    notes.extend(collected.notes.iter().cloned());
    notes.extend(collected.unattributed.iter().filter_map(|unattributed| unattributed.note()));
    for (_, regions) in &collected.regions {
        notes.extend(regions.notes("a device region", "device regions"));
    }
    for (_, regions) in &collected.device_time {
        notes.extend(regions.notes("an action", "actions"));
    }
    ReportHeaderParts {
        schema_version: SCHEMA_VERSION,
        units: Units::default(),
        stage: collected.stage,
        rank: run.rank,
        world_size: run.world_size,
        started_at: collected.rate.wall_time(collected.started),
        wall_seconds: collected.rate.seconds_between(collected.started, collected.ended),
        build: crate::build_settings::of_program(),
        program: mlprof_events::program_name(),
        machine: crate::machine::of_process(),
        frameworks: mlprof_events::frameworks(),
        startup: collected.startup.map(|startup| {
            StartupDurationsParts {
                total_seconds: startup.total.as_secs_f64(),
                before_main_seconds: startup.before_main.map(|part| part.as_secs_f64()),
            }
            .build()
        }),
        overhead: OverheadParts { scopes, seconds_per_scope }.build(),
        settings: Vec::new(),
        notes,
    }
    .build()
}

/// Maximum number of open scopes that a report lists. A program that leaks guards can have any
/// number of open scopes.
pub(crate) const MAX_OPEN: usize = 1000;

/// Returns the open actions, longest first, up to [`MAX_OPEN`].
pub(crate) fn open_actions<S>(collected: &Collected<S>) -> Vec<OpenAction> {
    let parts = collected.parts.iter();
    let mut open: Vec<_> =
        parts.flat_map(|part| part.open.iter().map(|scope| (&part.thread, scope))).collect();
    open.order_by_key(|(_, scope)| scope.started);
    let listed = open.into_iter().take(MAX_OPEN).map(|(thread, scope)| {
        OpenActionParts {
            action: scope.action.name().to_owned(),
            thread: thread.clone(),
            elapsed_seconds: collected.rate.seconds_between(scope.started, collected.ended),
        }
        .build()
    });
    listed.collect()
}
