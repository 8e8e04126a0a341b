//! Rule `growing-memory`: every step leaves memory allocated.

use mlprof_events::names::RUN_TRAINING_BATCH;
use mlprof_events::{ActionKind, Stage};

use crate::counted::{counted, were};
use crate::finding::{Confidence, Cost, Evidence, Finding, Place};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{bytes, grouped, share};
use crate::{MemoryReport, Report, TensorReport};

pub(super) static RULE: Rule = Rule {
    name: "growing-memory",
    condition: "every training step allocates memory that it does not free",
    thresholds: &[
        Threshold {
            name: "least-steps",
            default: 10.0,
            why: "minimum number of steps, so that objects that are created once and kept do not \
                  dominate",
        },
        Threshold {
            name: "bytes-per-step",
            default: 4096.0,
            why: "minimum bytes that each step leaves allocated: a number that is kept for a curve \
                  takes less",
        },
        Threshold {
            name: "share",
            default: 0.01,
            why: "minimum share of the memory allocated in recorded steps that stays allocated; in \
                  the memory report, minimum share of the process's peak",
        },
    ],
    is_of_time: true,
    examine,
};

/// Memory that the steps left allocated.
struct Growth {
    steps: u64,
    bytes: i64,
    /// Share of the reference: the peak in a Memory report, or the allocated bytes in a Tensor
    /// report.
    share: f64,
    place: Place,
    evidence: Vec<Evidence>,
    /// `true` if the growth must come from every step and cannot come from a single one.
    is_of_every_step: bool,
}

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    if !matches!(facts.report.header().stage, None | Some(Stage::Fit)) {
        return Outcome::no_inputs("the report does not cover a fit");
    }
    let growth = match facts.report {
        Report::Memory(report) => of_memory(report),
        Report::Tensor(report) => of_recorded(report),
        _ => Err("only the reports of the memory and Tensor profilers have memory"),
    };
    let growth = match growth {
        Ok(growth) => growth,
        Err(missing) => return Outcome::no_inputs(missing),
    };
    if (growth.steps as f64) < limits[0] {
        return Outcome::NoInputs(format!("there {} only", were(growth.steps, "step", "steps")));
    }
    let per_step = growth.bytes as f64 / growth.steps as f64;
    if !growth.is_of_every_step || per_step < limits[1] || growth.share < limits[2] {
        return Outcome::Healthy(growth.evidence);
    }
    let bytes_left = growth.bytes.unsigned_abs();
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Each step leaves {} allocated: {} after {}.",
            bytes(per_step as u64),
            bytes(bytes_left),
            counted(growth.steps, "step", "steps")
        ),
        evidence: growth.evidence,
        place: growth.place,
        // The growth costs time only when no memory is left.
        cost: Cost { bytes: Some(bytes_left), ..facts.cost(0.0) },
        confidence: Confidence::Likely,
        remedy: remedy(facts.framework).to_owned(),
    }])
}

/// Computes the growth from the blocks that training batches left allocated.
fn of_memory(report: &MemoryReport) -> Result<Growth, &'static str> {
    let is_own = |row: &&crate::memory::ActionMemory| row.sub_stage.is_none();
    let mut rows = report.actions.iter().filter(is_own);
    let batch = rows.find(|row| row.action == RUN_TRAINING_BATCH).ok_or(super::NO_LOOP)?;
    let left = batch.total;
    let grown = report.process.live_bytes - report.process.live_at_start_bytes;
    // The memory that the batches left may have been freed after them.
    let bytes_left = left.net_bytes().min(grown);
    let peak = report.process.peak_bytes.max(1);
    let most = report.actions.iter().filter(is_own).max_by_key(|row| row.own.net_bytes());
    Ok(Growth {
        steps: batch.calls,
        bytes: bytes_left,
        share: bytes_left as f64 / peak as f64,
        place: Place::action(most.map_or(RUN_TRAINING_BATCH, |row| &*row.action)),
        evidence: vec![
            Evidence::new("bytes left by training batches", signed(left.net_bytes())),
            Evidence::new("blocks left by training batches", left.net_blocks().to_string()),
            Evidence::new("growth of the process", signed(grown)),
            Evidence::new("peak", signed(report.process.peak_bytes)),
            Evidence::new("batches", grouped(batch.calls)),
        ],
        // An optimizer allocates its state as a few blocks in the first step. Fewer blocks than
        // steps therefore do not count.
        is_of_every_step: left.net_blocks() >= batch.calls.cast_signed(),
    })
}

/// Computes the growth from the bytes that the recorded steps allocated and did not free.
fn of_recorded(report: &TensorReport) -> Result<Growth, &'static str> {
    let averages = &report.key_averages;
    let step = averages.rows.iter().find(|row| row.kind == ActionKind::Step);
    let step = step.filter(|_| averages.has_memory).ok_or(
        "the report has no memory of steps: turn on `TensorProfiler::profile_memory` with a \
         framework that reports its allocations",
    )?;
    let allocated: u64 = step.memory.iter().map(|device| device.allocated_bytes).sum();
    let left = step.cpu_memory_bytes + step.device_memory_bytes;
    let own =
        |row: &&crate::tensor::KeyAverage| row.self_cpu_memory_bytes + row.self_device_memory_bytes;
    let most = averages.rows.iter().filter(|row| row.kind == ActionKind::Op).max_by_key(own);
    let first = report.cycles.first().map_or(0, |cycle| cycle.first_step);
    Ok(Growth {
        steps: step.calls,
        bytes: left,
        share: left as f64 / allocated.max(1) as f64,
        place: most.map_or_else(Place::default, place_of_op),
        evidence: vec![
            Evidence::new("bytes left by recorded steps", signed(left)),
            Evidence::new("bytes allocated in recorded steps", bytes(allocated)),
            Evidence::new("share", share(left as f64, allocated as f64)),
            Evidence::new("recorded steps", grouped(step.calls)),
        ],
        // The first step allocates memory that all later steps use, so it must not be recorded.
        is_of_every_step: first > 0,
    })
}

fn signed(count: i64) -> String {
    let sign = if count < 0 { "-" } else { "" };
    format!("{sign}{}", bytes(count.unsigned_abs()))
}

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Tch => {
            "find data that is kept across steps: keep values (`double_value`) instead of tensors, \
             `detach` tensors that need no backward pass, and clear lists that grow."
        }
        Framework::Burn => {
            "find losses that are kept across steps: each keeps the graph of its computation; keep \
             the value (`into_scalar`) or `detach` the loss, and clear lists that grow."
        }
        _ => {
            "find losses that are kept across steps: each keeps the graph of its computation; keep \
             the value (`to_scalar`) or `detach` the loss, and clear lists that grow."
        }
    }
}

#[cfg(test)]
mod tests {
    use mlprof_events::{ActionKind, MemoryDevice, Tallies};

    use crate::findings::samples::{found, healthy, missing, op, recorded, remembered, steps};
    use crate::memory::ActionMemory;
    use crate::tensor::{KeyAverage, MemoryUse};
    use crate::{MemoryReport, TensorReport};

    const NAME: &str = "growing-memory";
    const KIB: u64 = 1024;

    /// Builds a report with 100 steps that allocate 100 blocks of 1 KiB each. Each step leaves
    /// `blocks_per_step` blocks allocated.
    fn left(blocks_per_step: u64) -> MemoryReport {
        let left = 100 * blocks_per_step;
        let total = Tallies {
            allocated_bytes: 10_000 * KIB,
            allocated_blocks: 10_000,
            freed_bytes: (10_000 - left) * KIB,
            freed_blocks: 10_000 - left,
        };
        let mut report = remembered(total);
        let row = |action: &str, own| ActionMemory {
            action: action.to_owned(),
            kind: ActionKind::Action,
            sub_stage: None,
            calls: 100,
            total,
            own,
            peak_bytes: 100 * KIB,
        };
        report.actions =
            vec![row("run_training_batch", Tallies::ZERO), row("training_step", total)];
        report.process.live_bytes = (left * KIB).cast_signed();
        report.process.peak_bytes = ((100 + left) * KIB).cast_signed();
        report
    }

    #[test]
    fn blocks_that_every_step_leaves_are_found() {
        let finding = found(NAME, left(10));
        assert_eq!(finding.cost.bytes, Some(1_000 * KIB));
        assert_eq!((finding.cost.seconds, finding.cost.share), (0.0, 0.0));
        assert_eq!(finding.place.action.as_deref(), Some("training_step"));
        assert!(finding.sentence.contains("10.00 KiB allocated"), "{finding:?}");
    }

    #[test]
    fn constant_freed_and_small_memory_is_healthy() {
        healthy(NAME, left(0));
        // An optimizer's state has as many bytes in fewer blocks.
        let mut state = left(10);
        state.actions[0].total.freed_blocks = 10_000 - 50;
        healthy(NAME, state);
        let mut freed_later = left(10);
        freed_later.process.live_bytes = 0;
        healthy(NAME, freed_later);
        let mut of_much = left(10);
        of_much.process.peak_bytes = 1 << 30;
        healthy(NAME, of_much);
        let mut short = left(10);
        short.actions.iter_mut().for_each(|row| row.calls = 5);
        assert!(missing(NAME, short).contains("5 steps"));
        let mut validated = left(10);
        validated.header.stage = Some(mlprof_events::Stage::Validate);
        assert!(missing(NAME, validated).contains("not cover a fit"));
    }

    /// Builds a report with 100 recorded steps that allocate 1 MiB each. Each step leaves `bytes`
    /// allocated.
    fn recorded_left(bytes: i64) -> TensorReport {
        let allocated_bytes = 100 << 20;
        let memory = MemoryUse {
            device: MemoryDevice::Cpu,
            allocated_bytes,
            freed_bytes: allocated_bytes - (100 * bytes).unsigned_abs(),
            self_allocated_bytes: 0,
            self_freed_bytes: 0,
        };
        let step = KeyAverage {
            kind: ActionKind::Step,
            cpu_memory_bytes: 100 * bytes,
            memory: vec![memory],
            ..op("ProfilerStep*", 100, 2.0)
        };
        let keeps = KeyAverage { self_cpu_memory_bytes: 100 * bytes, ..op("aten::relu", 100, 0.1) };
        let mut report = recorded(vec![step, keeps, op("aten::mm", 100, 0.5)]);
        report.key_averages.has_memory = true;
        report
    }

    #[test]
    fn recorded_steps_tell_too() {
        let finding = found(NAME, recorded_left(50_000));
        assert_eq!(finding.cost.bytes, Some(5_000_000));
        assert_eq!(finding.place.op.as_deref(), Some("aten::relu"));
        assert!(finding.remedy.contains("double_value"), "{finding:?}");
        healthy(NAME, recorded_left(5_000));
        let mut first = recorded_left(50_000);
        first.cycles[0].first_step = 0;
        healthy(NAME, first);
        assert!(missing(NAME, recorded(Vec::new())).contains("profile_memory"));
        assert!(missing(NAME, steps(100, 0.02)).contains("memory"));
    }
}
