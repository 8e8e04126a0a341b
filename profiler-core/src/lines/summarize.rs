//! Conversion of tallies into a report.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::block::{Block, LineSnapshot, now};
use super::{DeclaredFunction, registry, source_hash};
use crate::report::internals::{Missing, counted_were, note_missing};
use crate::report::lines::{FunctionLines, LineStatistics};
use crate::report::{
    LinesReport, LinesReportParts, OverheadParts, ReportHeaderParts, SCHEMA_VERSION, Setting, Units,
};
use crate::{RunContext, allocation};
use mlprof_events::clock::{self, Rate, Stopwatch};
use mlprof_events::files::read;

/// Key of a function: file, first line and name. Instances of a generic function share it.
type Key = (String, u32, String);

#[derive(Default)]
struct Sum {
    declared: Option<DeclaredFunction>,
    calls: u64,
    entry: super::memory::Snapshot,
    lines: BTreeMap<u32, LineSnapshot>,
}

pub(super) fn report(started: u64, with_memory: bool) -> LinesReport {
    let rate = Rate::now();
    let ended = now();
    let sums = sums(ended);
    let mut notes = notes(with_memory);
    notes.extend(clock::notes(started, ended));
    let mut sources = Sources::default();
    let hits = sums.values().flat_map(|sum| sum.lines.values()).map(|line| line.hits).sum();
    let functions = sums
        .into_values()
        .filter_map(|sum| Some(function(&sum, sum.declared.as_ref()?, rate, &mut sources)))
        .collect::<Vec<_>>();
    notes.extend(sources.notes);
    if functions.is_empty() {
        note_missing(&[Missing::Lines], &mut notes);
    }
    let run = RunContext::from_environment();
    LinesReportParts {
        header: ReportHeaderParts {
            schema_version: SCHEMA_VERSION,
            units: Units::default(),
            stage: None,
            rank: run.rank,
            world_size: run.world_size,
            started_at: rate.wall_time(started),
            wall_seconds: rate.seconds_between(started, ended),
            build: crate::build_settings::of_program(),
            program: mlprof_events::program_name(),
            machine: crate::machine::of_process(),
            frameworks: mlprof_events::frameworks(),
            startup: None,
            overhead: OverheadParts { scopes: hits, seconds_per_scope: seconds_per_line() }.build(),
            settings: vec![Setting::recorded("memory", with_memory)],
            notes,
        }
        .build(),
        functions,
    }
    .build()
}

fn notes(with_memory: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let lost = registry::lost();
    if lost > 0 {
        notes.push(format!(
            "{} made by threads that were exiting; they are not in the lines",
            counted_were(lost, "call", "calls")
        ));
    }
    if with_memory && !allocation::is_installed() {
        notes.push(
            "the lines have no memory: the program's global allocator is not a TrackingAllocator"
                .to_owned(),
        );
    }
    notes
}

fn sums(now: u64) -> BTreeMap<Key, Sum> {
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    let key = |of: &DeclaredFunction| (of.file.clone(), of.first_line, of.name.clone());
    for function in registry::declared() {
        let key = key(&function);
        sums.entry(key).or_default().declared = Some(function);
    }
    for function in registry::all() {
        let sum = sums.entry(key(&function.declared)).or_default();
        sum.declared = Some(function.declared.clone());
        for block in function.blocks() {
            sum.add(&function.declared.points, block, now);
        }
    }
    sums
}

impl Sum {
    fn add(&mut self, points: &[u32], block: &Block, now: u64) {
        self.calls += block.calls();
        self.entry.merge(&block.entry());
        for (number, line) in points.iter().zip(block.snapshot(now)) {
            let sum = self.lines.entry(*number).or_default();
            sum.hits += line.hits;
            sum.ticks += line.ticks;
            sum.memory.merge(&line.memory);
        }
    }
}

fn function(
    sum: &Sum,
    declared: &DeclaredFunction,
    rate: Rate,
    sources: &mut Sources,
) -> FunctionLines {
    let lines: Vec<_> = sum
        .lines
        .iter()
        .filter(|(_, line)| line.hits > 0)
        .map(|(number, line)| LineStatistics {
            line: *number,
            hits: line.hits,
            seconds: rate.seconds(line.ticks),
            memory: line.memory.get(),
        })
        .collect();
    FunctionLines {
        name: declared.name.clone(),
        file: declared.file.clone(),
        first_line: declared.first_line,
        last_line: declared.last_line,
        calls: sum.calls,
        total_seconds: lines.iter().fold(0.0, |sum, line| sum + line.seconds),
        entry_memory: sum.entry.get(),
        lines,
        source: sources.lines_of(declared),
    }
}

/// Maximum size in bytes of a source file.
const LONGEST_SOURCE: u64 = 64 << 20;

/// Cache of source files, each read once on first use.
#[derive(Default)]
struct Sources {
    files: HashMap<String, Option<Vec<String>>>,
    notes: Vec<String>,
}

impl Sources {
    /// Returns the source lines of a function, or `None` if its file cannot be read.
    fn lines_of(&mut self, function: &DeclaredFunction) -> Option<Vec<String>> {
        let file = &function.file;
        let notes = &mut self.notes;
        let lines = self.files.entry(file.clone()).or_insert_with(|| {
            match read(Path::new(file), LONGEST_SOURCE) {
                Ok(bytes) => {
                    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
                }
                Err(error) => {
                    notes.push(format!(
                        "the source of some lines is missing: cannot read {file}: \
                                        {error}"
                    ));
                    None
                }
            }
        });
        let lines = lines.as_ref()?;
        let first = (function.first_line as usize).saturating_sub(1).min(lines.len());
        let last = (function.last_line as usize).clamp(first, lines.len());
        let text = &lines[first..last];
        if source_hash(text.iter().map(String::as_str)) != function.source_hash {
            notes.push(format!(
                "{file} has changed since {} was built, so numbers can be next to the wrong lines",
                function.name
            ));
        }
        Some(text.to_vec())
    }
}

/// Measures the cost of one line in seconds on this machine.
fn seconds_per_line() -> f64 {
    const LINES: u32 = 1000;
    let block = Block::new(2);
    let round = || {
        let started = Stopwatch::start();
        for line in 0..LINES {
            std::hint::black_box(&block).at(line % 2);
        }
        started.elapsed().as_secs_f64() / f64::from(LINES)
    };
    (0..5).map(|_| round()).fold(f64::INFINITY, f64::min)
}
