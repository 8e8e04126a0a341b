//! Compares the rows of a fit with Lightning's, which the guide lists in "The trainer and
//! Lightning".

#[allow(dead_code, reason = "other tests need the rest")]
#[path = "../loop/toy.rs"]
mod toy;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use mlprof_core::{Action, NeverStarted, Profiler};
use mlprof_train::{Callback, TrainModule};

use toy::{Triple, inputs, trainer};

/// Number of calls by row.
type Counts = BTreeMap<String, u64>;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lightning/counts.py");
const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/reference/lightning.md");

/// Counts actions like Lightning's profilers, with the sanity check as part of the fit.
#[derive(Default)]
struct Counter(Mutex<Counts>);

impl Profiler for Counter {
    fn start(&self, _action: Action) {}

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        *self.0.lock().expect("counts").entry(action.name().to_owned()).or_default() += 1;
        Ok(())
    }
}

struct Witness;

impl<M: TrainModule> Callback<M> for Witness {}

/// Returns the counts of two epochs of 7 batches. Each epoch is followed by a validation of 4
/// batches, and the sanity check has 2.
fn own_counts() -> Counts {
    let counter = Arc::new(Counter::default());
    let mut trainer = trainer().max_epochs(2).callback(Witness).profiler(counter.clone());
    trainer.fit(&mut Triple::default(), &inputs(7), Some(&inputs(4))).expect("trained");
    let counts = counter.0.lock().expect("counts");
    counts.iter().map(|(name, calls)| (name.replace("]Triple.", "]Toy."), *calls)).collect()
}

/// Returns the counts in the guide's tables: Lightning's and ours. A hook without a prefix stands
/// for one hook of the callback and one of the module. `…` stands for the name of the callback, the
/// module or the strategy.
fn documented() -> (Counts, Counts) {
    let guide = std::fs::read_to_string(GUIDE).expect("the guide");
    let (mut lightning, mut own) = (Counts::new(), Counts::new());
    for line in guide.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, rows, theirs, ours, reason, _] = cells[..] else { continue };
        assert_eq!(theirs == ours, reason.is_empty(), "a reason where they differ: {line}");
        for row in rows.split(", ").map(|row| row.trim_matches('`')) {
            let names = match row.split_once("….") {
                Some(("[Callback]", hook)) => vec![format!("[Callback]Witness.{hook}")],
                Some(("[LightningModule]", hook)) => vec![format!("[LightningModule]Toy.{hook}")],
                Some((strategy, hook)) => vec![format!("{strategy}SingleDeviceStrategy.{hook}")],
                None if row.starts_with("on_") || row == "setup" || row == "teardown" => {
                    vec![format!("[Callback]Witness.{row}"), format!("[LightningModule]Toy.{row}")]
                }
                None => vec![row.to_owned()],
            };
            for name in names {
                for (counts, calls) in [(&mut lightning, theirs), (&mut own, ours)] {
                    let Ok(calls) = calls.parse() else { continue };
                    let before = counts.insert(name.clone(), calls);
                    assert_eq!(before, None, "{name} is there twice");
                }
            }
        }
    }
    (lightning, own)
}

/// Returns the rows whose counts differ, as `row: left, right`.
fn differences(left: &Counts, right: &Counts) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
    let differing = names.into_iter().filter(|name| left.get(*name) != right.get(*name));
    differing.map(|name| format!("{name}: {:?}, {:?}", left.get(name), right.get(name))).collect()
}

#[test]
fn every_row_has_the_count_of_the_guide() {
    let (lightning, own) = documented();
    assert!(lightning.len() > 60 && own.len() > 60, "the guide has tables");
    assert_eq!(differences(&own, &own_counts()), [""; 0], "the guide, a run");
}

/// Runs Lightning if the local Python has it. `MLPROF_LIGHTNING_PYTHON` names the interpreter.
#[test]
fn lightnings_own_run_has_the_counts_of_the_guide() {
    let python = std::env::var_os("MLPROF_LIGHTNING_PYTHON").unwrap_or_else(|| "python3".into());
    let output = match Command::new(&python).arg(Path::new(SCRIPT)).output() {
        Ok(output) if output.status.success() => output,
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let is_missing = stderr.contains("ModuleNotFoundError");
            assert!(is_missing, "{stderr}");
            let reason = stderr.lines().last().unwrap_or_default();
            return println!("    skipped: {} cannot import Lightning: {reason}", python.display());
        }
        Err(error) => return println!("    skipped: cannot run {}: {error}", python.display()),
    };
    let printed = String::from_utf8(output.stdout).expect("text");
    let run: Run = parse(&printed);
    if !run.version.starts_with("2.6.") {
        return println!("    skipped: the guide is of Lightning 2.6, this is {}", run.version);
    }
    let (lightning, _) = documented();
    assert_eq!(
        differences(&lightning, &run.calls),
        [""; 0],
        "the guide, Lightning {}",
        run.version
    );
}

struct Run {
    version: String,
    calls: Counts,
}

/// Parses the script's output: one name and value per line.
fn parse(printed: &str) -> Run {
    let mut run = Run { version: String::new(), calls: Counts::new() };
    for line in printed.lines() {
        let Some((name, value)) = line.trim().trim_end_matches(',').split_once("\": ") else {
            continue;
        };
        let name = name.trim_start_matches('"');
        match value.parse() {
            Ok(calls) => drop(run.calls.insert(name.to_owned(), calls)),
            Err(_) if name == "version" => run.version = value.trim_matches('"').to_owned(),
            Err(_) => {}
        }
    }
    run
}
