//! Rule `hidden-waits`: every step reads a tensor value and waits for it.

use mlprof_events::{ActionKind, Stage};

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::tensor::device_seconds;

pub(super) static RULE: Rule = Rule {
    name: "hidden-waits",
    condition: "every step reads tensor values, and the host waits longer than devices are busy",
    thresholds: &[Threshold {
        name: "share",
        default: 0.1,
        why: "minimum share of the recorded steps for waiting, minus the time in which devices \
              were busy",
    }],
    is_of_time: true,
    examine,
};

/// Ops that read values of tensors. [`WAITS`] lists the driver calls that wait.
const READS: &[&str] = &[
    "aten::_local_scalar_dense",
    "aten::item",
    "candle::to_scalar",
    "candle::to_vec0",
    "candle::to_vec1",
    "candle::to_vec2",
    "candle::to_vec3",
];
const WAITS: &[&str] = &[
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "cuStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaStreamSynchronize",
];

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let (Report::Tensor(_), Some(steps)) = (facts.report, facts.steps) else {
        return Outcome::no_inputs("only the Tensor profiler's report has ops of steps");
    };
    // An evaluation normally reads its results.
    if !matches!(facts.report.header().stage, None | Some(Stage::Fit)) {
        return Outcome::no_inputs("the report does not cover a fit");
    }
    if facts.ops().iter().all(|row| row.kind != ActionKind::Op) {
        return Outcome::no_inputs("the report has no ops");
    }
    let of = |names: &'static [&str]| {
        facts.ops().iter().filter(|row| !row.is_on_device && names.contains(&&*row.name))
    };
    let calls: u64 = of(READS).map(|row| row.calls).sum();
    let longest = of(READS).max_by(|one, other| one.cpu_seconds.total_cmp(&other.cpu_seconds));
    let Some(read) = longest.filter(|_| calls >= steps) else {
        return Outcome::healthy([
            Evidence::new("value reads", grouped(calls)),
            Evidence::new("recorded steps", grouped(steps)),
        ]);
    };
    // A single long read may be a thread that lost its core, while a waiting read is long every
    // time. Therefore the shortest read times the number of reads must reach half of the total
    // time. With many reads on a busy machine, the shortest one is not representative. There the
    // product must reach the threshold share of all steps, each counted with the shortest step's
    // duration.
    let shortest = read.rest.map_or(read.first_seconds, |rest| rest.min_seconds);
    let at_least = shortest * read.calls as f64;
    let is_alike = at_least >= 0.5 * read.cpu_seconds
        || shortest_step(facts).is_some_and(|step| at_least >= limits[0] * step * steps as f64);
    if !is_alike {
        return Outcome::healthy([
            Evidence::new(format!("shortest {}", read.name), duration(shortest)),
            Evidence::new("mean", duration(read.mean_cpu_seconds())),
        ]);
    }
    let waited: f64 = of(READS).chain(of(WAITS)).map(|row| row.self_cpu_seconds).sum();
    let busy = device_seconds(facts.ops());
    // The device needs its busy time in any case, so this part cannot be saved.
    let saved = waited.min((facts.seconds - busy).max(0.0));
    let part = facts.share(saved);
    let evidence = [
        Evidence::new("waiting", duration(waited)),
        Evidence::new("value reads", grouped(calls)),
        Evidence::new("recorded steps", grouped(steps)),
        Evidence::new("device busy time", duration(busy)),
    ];
    if part < limits[0] {
        return Outcome::healthy(evidence);
    }
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Every step reads tensor values ({}), which took {} ({}).",
            read.name,
            duration(waited),
            share(facts.share(waited), 1.0)
        ),
        evidence: evidence.into(),
        place: place_of_op(read),
        cost: facts.cost(saved),
        confidence: Confidence::Likely,
        remedy: remedy(facts.framework).to_owned(),
    }])
}

/// Returns the duration of the shortest recorded step in seconds, if the table contains it.
fn shortest_step(facts: &Facts<'_>) -> Option<f64> {
    let step = facts.ops().iter().find(|row| row.kind == ActionKind::Step)?;
    let rest = step.rest?.min_seconds;
    Some(rest.min(step.first_seconds))
}

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Tch => {
            "read the loss (`double_value`, `f64::try_from`) only every few steps, and accumulate \
             values as tensors in between."
        }
        _ => {
            "read values (`to_scalar`, `to_vec…`) only every few steps, and accumulate them as \
             detached tensors in between."
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::samples::{close, found, healthy, kernel, missing, op, recorded, steps};
    use crate::tensor::RestDurations;

    const NAME: &str = "hidden-waits";

    #[test]
    fn a_read_in_every_step_is_found() {
        let rows = vec![op("candle::matmul", 500, 1.0), op("candle::to_scalar", 100, 0.6)];
        let finding = found(NAME, recorded(rows));
        close(finding.cost.seconds, 0.6, 0.001);
        close(finding.cost.seconds_per_step.expect("steps"), 0.006, 0.001);
        assert_eq!(finding.place.op.as_deref(), Some("candle::to_scalar"));
    }

    #[test]
    fn waits_of_the_driver_count_and_what_the_device_needs_does_not() {
        let rows = |busy| {
            vec![
                op("aten::_local_scalar_dense", 100, 0.01),
                op("cudaStreamSynchronize", 100, 1.2),
                kernel("gemm", 500, busy),
            ]
        };
        // The device is idle for the rest of the two seconds.
        close(found(NAME, recorded(rows(1.5))).cost.seconds, 0.5, 0.001);
        close(found(NAME, recorded(rows(0.2))).cost.seconds, 1.21, 0.001);
        healthy(NAME, recorded(rows(1.95)));
    }

    /// Checks that the kernel time repeated in the rows of ops is counted once.
    #[test]
    fn kernels_of_ops_keep_the_device_busy_once() {
        let rows = |busy: f64| {
            let mut launching = op("aten::mm", 500, 0.05);
            (launching.device_seconds, launching.self_device_seconds) = (busy, busy);
            vec![
                op("aten::_local_scalar_dense", 100, 0.01),
                op("cudaStreamSynchronize", 100, 1.2),
                launching,
                kernel("gemm", 500, busy),
            ]
        };
        for (busy, told) in [(1.0, "1.00 s"), (0.8, "800 ms")] {
            let finding = found(NAME, recorded(rows(busy)));
            close(finding.cost.seconds, 2.0 - busy, 0.001);
            let seen = finding.evidence.iter().find(|seen| seen.what == "device busy time");
            assert!(seen.is_some_and(|seen| seen.value == told), "{finding:?}");
        }
    }

    #[test]
    fn a_read_now_and_then_is_not_nor_one_that_costs_nothing() {
        healthy(NAME, recorded(vec![op("candle::to_scalar", 5, 0.6)]));
        healthy(NAME, recorded(vec![op("candle::to_scalar", 100, 0.001)]));
        let mut uneven = op("candle::to_scalar", 100, 0.6);
        uneven.rest =
            Some(RestDurations { min_seconds: 2e-6, max_seconds: 0.59, deviation_seconds: None });
        healthy(NAME, recorded(vec![uneven]));
        // With 200,000 reads, the shortest one took a fifth of the mean.
        let many = |shortest_step: f64| {
            let mut reads = op("aten::item", 200_000, 0.6);
            let rest = |min_seconds| RestDurations {
                min_seconds,
                max_seconds: 0.03,
                deviation_seconds: None,
            };
            reads.rest = Some(rest(0.6e-6));
            let mut step = op("ProfilerStep*", 100, 2.0);
            step.kind = mlprof_events::ActionKind::Step;
            step.rest = Some(rest(shortest_step));
            recorded(vec![step, reads])
        };
        close(found(NAME, many(0.01)).cost.seconds, 0.6, 0.001);
        healthy(NAME, many(0.015));
        let mut tested = recorded(vec![op("candle::to_scalar", 100, 0.6)]);
        tested.header.stage = Some(mlprof_events::Stage::Test);
        assert!(missing(NAME, tested).contains("not cover a fit"));
        let mut short = recorded(vec![op("candle::to_scalar", 100, 0.6)]);
        short.recorded_steps = 1;
        assert!(missing(NAME, short).contains("1 step was recorded"));
        assert!(missing(NAME, steps(100, 0.02)).contains("Tensor"));
        assert!(missing(NAME, recorded(Vec::new())).contains("no ops"));
    }
}
