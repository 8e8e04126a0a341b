//! Rule `tuning-in-steps`: kernels are compiled or autotuned during the recorded steps.

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "tuning-in-steps",
    condition: "the device compiles or tunes kernels in the recorded steps",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "minimum share of the recorded steps for tuning",
        },
        Threshold {
            name: "warm-after",
            default: 10.0,
            why: "number of steps after which all shapes of an epoch should have occurred: tuning \
                  in earlier steps is a hint",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Report::Tensor(report) = facts.report else {
        return Outcome::no_inputs("only the Tensor profiler's report has kernels");
    };
    if report.tuning.is_empty() && facts.ops().iter().all(|row| !row.is_on_device) {
        return Outcome::no_inputs("the report has no device activity");
    }
    let seconds: f64 = report.tuning.iter().map(|kernel| kernel.device_seconds).sum();
    let first_step = report.cycles.last().map_or(0, |cycle| cycle.first_step);
    let evidence = [
        Evidence::new("tuning", duration(seconds)),
        Evidence::new("kernels", grouped(report.tuning.len() as u64)),
        Evidence::new("first step of the last cycle", grouped(first_step)),
    ];
    let longest = report
        .tuning
        .iter()
        .max_by(|one, other| one.device_seconds.total_cmp(&other.device_seconds));
    let Some(longest) = longest.filter(|_| facts.share(seconds) >= limits[0]) else {
        return Outcome::healthy(evidence);
    };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "In the recorded steps the device compiled or tuned kernels for {} ({}).",
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: Place::kernel(&*longest.name),
        cost: facts.cost(seconds),
        confidence: match first_step as f64 >= limits[1] {
            true => Confidence::Likely,
            false => Confidence::Hint,
        },
        remedy:
            "keep shapes the same in all steps (pad, drop the last small batch), keep CubeCL's \
                 autotune cache between runs, and record later steps (`Schedule::skip_first`) if \
                 only the first ones tune."
                .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, kernel, missing, op, recorded, steps};
    use crate::tensor::{TensorReport, TuningSummary};

    const NAME: &str = "tuning-in-steps";

    /// Builds a report with two tuned kernels, recorded from the step `first_step` on.
    fn tuned(device_seconds: f64, first_step: u64) -> TensorReport {
        let mut report = recorded(vec![kernel("matmul", 100, 1.0)]);
        report.cycles[0].first_step = first_step;
        for part in [0.25, 0.75] {
            let device_seconds = part * device_seconds;
            report.tuning.push(TuningSummary {
                name: format!("kernel of {part}"),
                count: 3,
                device_seconds,
            });
        }
        report
    }

    #[test]
    fn tuning_late_in_a_run_is_found_and_early_it_is_a_hint() {
        let finding = found(NAME, tuned(0.5, 50));
        close(finding.cost.seconds, 0.5, 0.001);
        assert_eq!(finding.confidence, Confidence::Likely);
        assert_eq!(finding.place.kernel.as_deref(), Some("kernel of 0.75"));
        assert_eq!(found(NAME, tuned(0.5, 2)).confidence, Confidence::Hint);
    }

    #[test]
    fn warm_steps_are_not() {
        healthy(NAME, tuned(0.01, 50));
        healthy(NAME, recorded(vec![kernel("matmul", 100, 1.0)]));
        assert!(missing(NAME, recorded(vec![op("aten::mm", 9, 1.0)])).contains("device activity"));
        assert!(missing(NAME, steps(100, 0.02)).contains("Tensor"));
    }
}
