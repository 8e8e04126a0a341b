//! Checks a recording with ten million kernels.

use std::time::Instant;

use super::Shared;
use crate::gpu::Kernel;
use crate::machine;
use crate::options::Options;
use crate::outcome::Row;
use crate::recording::{Plan, Recorded, record};
use crate::statistics::grouped;

const KERNELS: u64 = 10_000_000;
/// Event capacity of the recording, far below the number of kernels.
const ROOM: u64 = 1 << 20;
/// Maximum growth of the process's memory in bytes.
const MOST_GROWTH: u64 = 1 << 30;

/// Maximum number of reported events that are neither kept nor dropped, because they ended before
/// the recording began.
const BEFORE: u64 = 100;
/// Beginning of the note about events that CUPTI lost; a number follows.
const LOST: &str = "CUPTI had no room for";

pub fn run(_: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let gpu = shared.gpu()?;
    // The first recording of a process absorbs the one-time costs.
    record(Plan::default(), |_| gpu.launch(Kernel::Empty, 1000).and_then(|()| gpu.wait()))?;
    machine::forget_peak()?;
    let before = machine::resident()?;
    let began = Instant::now();
    let plan = Plan { max_events: Some(ROOM), ..Plan::default() };
    let recorded = record(plan, |_| {
        gpu.launch(Kernel::Empty, KERNELS)?;
        gpu.wait()
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let growth = machine::peak()?.saturating_sub(before);
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    let memory = format!("at most {} more, in {seconds:.1} s", mebibytes(growth));
    let limit = format!("less than {}", mebibytes(MOST_GROWTH));
    Ok(vec![
        Row::decided("10 million kernels: memory", memory, limit, growth < MOST_GROWTH),
        accounts(&recorded),
        notes(&recorded),
    ])
}

/// Checks that kept, dropped and lost kernels add up to the total. CUPTI counts lost records, of
/// which each kernel has several.
fn accounts(recorded: &Recorded) -> Row {
    let recording = &recorded.recording;
    let (kernels, kept) = (recording.kernels, recording.kept_count);
    let dropped = recording.dropped.device;
    let lost = records_lost(&recorded.report.header.notes);
    let mut measured = format!(
        "{} kernels collected; of {} events and samples of the device {} kept and {} dropped",
        grouped(kernels),
        grouped(recording.told_count),
        grouped(kept),
        grouped(dropped)
    );
    if lost > 0 {
        measured += &format!("; {} records for which CUPTI had no room", grouped(lost));
    }
    let is_all = kernels <= KERNELS && kernels + lost >= KERNELS;
    let is_good = is_all && recording.told_count.abs_diff(kept + dropped) <= BEFORE;
    let limit = format!("{}, each kept, dropped or lost", grouped(KERNELS));
    Row::decided("10 million kernels: counted", measured, limit, is_good)
}

/// Returns the number of lost records from the note about CUPTI, or 0 without such a note.
fn records_lost(notes: &[String]) -> u64 {
    let numbers = notes.iter().filter_map(|note| note.strip_prefix(LOST)?.split(' ').nth(1));
    numbers.filter_map(|number| number.replace(',', "").parse::<u64>().ok()).sum()
}

/// Checks that the report notes all missing data.
fn notes(recorded: &Recorded) -> Row {
    let recording = &recorded.recording;
    let mut unsaid = Vec::new();
    let kinds = [
        (recording.dropped.device, "kernels"),
        (recording.dropped.events, "ops, actions and other scopes"),
    ];
    for (count, what) in kinds {
        let words = format!("{} {what}", grouped(count));
        let says_so = |note: &String| note.starts_with(&words) && note.contains("were dropped");
        if count > 0 && !recorded.report.header.notes.iter().any(says_so) {
            unsaid.push(words);
        }
    }
    if recording.kernels < KERNELS && !recorded.has_note(LOST) {
        unsaid.push("the records that CUPTI lost".to_owned());
    }
    let (is_good, limit) = (unsaid.is_empty(), "a note for each kind of missing event");
    let measured = match is_good {
        true => "the notes list all dropped events".to_owned(),
        false => format!("the notes lack: {}", unsaid.join(", ")),
    };
    Row::decided("10 million kernels: notes", measured, limit, is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_records_are_parsed_from_the_note() {
        let note = |text: &str| vec!["another one".to_owned(), text.to_owned()];
        let notes =
            note("CUPTI had no room for 1200 of its records (kernels, …): they are missing");
        assert_eq!(records_lost(&notes), 1200);
        assert_eq!(records_lost(&note("CUPTI had no room for 1,200 of its records")), 1200);
        assert_eq!(records_lost(&note("kernels may be missing")), 0);
    }
}
