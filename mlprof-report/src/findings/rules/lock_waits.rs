//! Rule `lock-waits`: training waits for locks that other threads hold.

use std::collections::HashMap;

use mlprof_events::names::RUN_TRAINING_BATCH;

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::samples::Samples;
use crate::samples::waits::Waits;

pub(super) static RULE: Rule = Rule {
    name: "lock-waits",
    condition: "the training thread waits for locks for a large part of the run",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "minimum share of the run in which training batches wait for locks",
        },
        Threshold {
            name: "least-ticks",
            default: 20.0,
            why: "minimum number of samples with a lock wait, so that chance does not dominate",
        },
    ],
    is_of_time: true,
    examine,
};

/// Parts of the names of functions that only wait for a lock. They belong to the standard library,
/// `parking_lot` and the C library.
const LOCKS: &[&str] = &[
    "lock_contended",
    "read_contended",
    "write_contended",
    "lock_slow",
    "lock_shared_slow",
    "lock_exclusive_slow",
    "pthread_mutex_lock",
    "pthread_rwlock",
    "__lll_lock_wait",
];

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let samples = match facts.report {
        Report::Advanced(report) => report.samples.as_ref(),
        Report::Samples(report) => Some(&report.samples),
        _ => None,
    };
    let Some(samples) = samples.filter(|samples| samples.samples > 0) else {
        return Outcome::no_inputs(
            "the report has no stack samples: turn on `AdvancedProfiler::sampled` (Linux)",
        );
    };
    let is_batch = |action: &&crate::samples::ActionSamples| {
        action.action == RUN_TRAINING_BATCH && action.sub_stage.is_none()
    };
    let Some(batch) = samples.actions.iter().find(is_batch) else {
        return Outcome::no_inputs(super::NO_LOOP);
    };
    let waits = crate::samples::waits::of_action_inside(samples, batch, is_lock);
    let ticks: u64 = waits.iter().map(|waits| waits.ticks).sum();
    let seconds = ticks as f64 * samples.seconds_per_tick;
    let evidence = [
        Evidence::new("wait for locks", duration(seconds)),
        Evidence::new("samples with a lock wait", grouped(ticks)),
        Evidence::new(
            "wait for anything",
            duration(batch.all.waiting_ticks as f64 * samples.seconds_per_tick),
        ),
    ];
    let is_much = facts.share(seconds) >= limits[0] && ticks as f64 >= limits[1];
    let Some(most) = longest(&waits).filter(|_| is_much) else {
        return Outcome::healthy(evidence);
    };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Training batches waited for locks for {} ({}), mostly in {}.",
            duration(seconds),
            share(facts.share(seconds), 1.0),
            name(samples, most)
        ),
        evidence: evidence.into(),
        place: Place { source: source(samples, most), ..Place::action(RUN_TRAINING_BATCH) },
        cost: facts.cost(seconds),
        confidence: Confidence::Likely,
        remedy: "hold the lock for a shorter time (copy the data, then work on the copy), or pass \
                 data through a channel; check which other thread holds the lock."
            .to_owned(),
    }])
}

fn is_lock(name: &str) -> bool {
    LOCKS.iter().any(|lock| name.contains(lock))
}

/// Returns the function with the longest total wait.
fn longest(waits: &[Waits]) -> Option<u32> {
    let mut sums: HashMap<u32, u64> = HashMap::new();
    waits.iter().for_each(|waits| *sums.entry(waits.function).or_default() += waits.ticks);
    let most = sums.into_iter().max_by_key(|(function, ticks)| (*ticks, *function));
    most.map(|(function, _)| function)
}

fn name(samples: &Samples, function: u32) -> &str {
    samples.functions.get(function as usize).map_or("", |code| &code.name)
}

fn source(samples: &Samples, function: u32) -> Option<String> {
    let code = samples.functions.get(function as usize)?;
    let file = code.file.as_ref()?;
    Some(code.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}")))
}

#[cfg(test)]
mod tests {
    use crate::AdvancedReport;
    use crate::findings::samples::{close, found, header, healthy, missing, steps};
    use crate::samples::{ActionSamples, SampleCounts, SampledCode, Samples, StackNode};

    const NAME: &str = "lock-waits";

    /// Builds a report of two seconds, sampled at 1 kHz. `function` waits for `ticks` ticks, called
    /// by a function of the program.
    fn waited(ticks: u64, function: &str) -> AdvancedReport {
        let code = |name: &str, library: &str| SampledCode {
            name: name.to_owned(),
            library: library.to_owned(),
            file: (library == "app").then(|| "src/main.rs".to_owned()),
            line: Some(7),
        };
        let functions = vec![
            code("app::log", "app"),
            code(function, "libc.so.6"),
            code("syscall", "libc.so.6"),
        ];
        let action = StackNode {
            parent: None,
            action: Some("run_training_batch".to_owned()),
            sub_stage: None,
            function: None,
            working_ticks: 0,
            waiting_ticks: 0,
        };
        let node = |parent, function, waiting_ticks| StackNode {
            parent: Some(parent),
            action: None,
            function: Some(function),
            waiting_ticks,
            ..action.clone()
        };
        let stacks = vec![action.clone(), node(0, 0, 0), node(1, 1, 0), node(2, 2, ticks)];
        let batch = ActionSamples {
            action: "run_training_batch".to_owned(),
            sub_stage: None,
            all: SampleCounts { samples: 9, waiting_ticks: ticks, ..SampleCounts::default() },
            squared_ticks: 0,
            functions: Vec::new(),
        };
        let samples = Samples {
            samples: 9,
            seconds: 2.0,
            seconds_per_tick: 1e-3,
            actions: vec![batch],
            functions,
            stacks,
            ..Samples::default()
        };
        AdvancedReport {
            header: header(2.0),
            actions: Vec::new(),
            threads: Vec::new(),
            open: Vec::new(),
            samples: Some(samples),
            device_regions: Vec::new(),
            step_series: Vec::new(),
            findings: Vec::new(),
        }
    }

    #[test]
    fn a_lock_that_is_waited_for_is_found_where_it_is_taken() {
        for lock in ["std::sys::sync::mutex::futex::Mutex::lock_contended", "__lll_lock_wait"] {
            let finding = found(NAME, waited(600, lock));
            close(finding.cost.seconds, 0.6, 0.001);
            assert!(finding.sentence.contains("app::log"), "{finding:?}");
            assert_eq!(finding.place.source.as_deref(), Some("src/main.rs:7"));
        }
    }

    #[test]
    fn other_waits_are_not_nor_short_ones() {
        healthy(NAME, waited(600, "std::sync::mpsc::Receiver<T>::recv"));
        healthy(NAME, waited(60, "__lll_lock_wait"));
        let mut elsewhere = waited(600, "__lll_lock_wait");
        let samples = elsewhere.samples.as_mut().expect("it has some");
        samples.stacks[0].action = Some("load_data".to_owned());
        healthy(NAME, elsewhere);
        let mut without = waited(600, "__lll_lock_wait");
        without.samples = None;
        assert!(missing(NAME, without).contains("samples"));
        assert!(missing(NAME, steps(100, 0.02)).contains("samples"));
    }
}
