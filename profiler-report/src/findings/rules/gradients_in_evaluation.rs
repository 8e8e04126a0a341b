//! Validation and tests that keep what only a backward pass needs.

use profiler_events::{ActionKind, Stage};

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{grouped, share};

pub(super) struct GradientsInEvaluation;

const THRESHOLDS: &[Threshold] = &[
    Threshold {
        name: "share",
        default: 0.25,
        why: "the part of all ops that must be remembered: of a model's two fifths are, for what an op is \
              made of is not; making batches is, too, where nobody says otherwise",
    },
    Threshold {
        name: "least-ops",
        default: 100.0,
        why: "so many there must be, that it is the model",
    },
    Threshold {
        name: "seconds-per-op",
        default: 2e-6,
        why: "what remembering an op takes: the node, what it keeps, and freeing both",
    },
];

impl Rule for GradientsInEvaluation {
    fn name(&self) -> &'static str {
        "gradients-in-evaluation"
    }

    fn condition(&self) -> &'static str {
        "in validation, test or prediction most ops are remembered for a backward pass"
    }

    fn thresholds(&self) -> &'static [Threshold] {
        THRESHOLDS
    }

    fn examine(&self, facts: &Facts<'_>, limits: &[f64]) -> Outcome {
        let Report::Tensor(report) = facts.report else {
            return Outcome::no_inputs("only the report of the Tensor profiler has ops");
        };
        let stages = [Stage::Validate, Stage::Test, Stage::Predict];
        if !report.header.stage.is_some_and(|stage| stages.contains(&stage)) {
            return Outcome::no_inputs("the report is not of a validation, test or prediction");
        }
        if facts.framework != Framework::Tch {
            return Outcome::no_inputs("only tch numbers the ops that it remembers");
        }
        let is_op = |row: &&crate::tensor::KeyAverage| row.kind == ActionKind::Op;
        let ops: u64 = facts.ops().iter().filter(is_op).map(|row| row.calls).sum();
        let tracked = report.tracked_ops as f64;
        let part = if ops > 0 { tracked / ops as f64 } else { 0.0 };
        let evidence = [
            Evidence::new("ops remembered", grouped(report.tracked_ops)),
            Evidence::new("all ops", grouped(ops)),
        ];
        if part < limits[0] || tracked < limits[1] {
            return Outcome::healthy(evidence);
        }
        Outcome::Found(vec![Finding {
            rule: self.name().to_owned(),
            sentence: format!(
                "{} of the ops ({}) were remembered for a backward pass that never comes.",
                grouped(report.tracked_ops),
                share(part, 1.0)
            ),
            evidence: evidence.into(),
            place: Place::default(),
            cost: facts.estimated_cost(tracked * limits[2]),
            confidence: Confidence::Likely,
            remedy: "evaluate within `tch::no_grad` (or a `tch::no_grad_guard`), which frees each \
                     result as soon as the next one is there."
                .to_owned(),
        }])
    }
}

#[cfg(test)]
mod tests {
    use profiler_events::Stage;

    use crate::TensorReport;
    use crate::findings::samples::{close, found, healthy, missing, op, recorded, steps};

    const NAME: &str = "gradients-in-evaluation";

    /// A test of 10,000 ops, so many of them remembered.
    fn tested(tracked_ops: u64) -> TensorReport {
        let mut report = recorded(vec![op("aten::conv2d", 10_000, 1.5)]);
        report.header.stage = Some(Stage::Test);
        report.tracked_ops = tracked_ops;
        report
    }

    #[test]
    fn a_test_with_gradients_is_found_and_one_without_is_not() {
        let finding = found(NAME, tested(9_000));
        close(finding.cost.seconds, 0.018, 0.001);
        assert!(finding.remedy.contains("no_grad"), "{finding:?}");
        // A small network's, counted: ops are made of others.
        found(NAME, tested(4_262));
        healthy(NAME, tested(1_000));
        let mut few = tested(60);
        few.key_averages.rows[0].calls = 90;
        healthy(NAME, few);
    }

    #[test]
    fn training_needs_them_and_others_do_not_tell() {
        let mut trained = tested(9_000);
        trained.header.stage = Some(Stage::Fit);
        assert!(missing(NAME, trained).contains("not of a validation"));
        let mut candle = tested(0);
        candle.key_averages.rows[0].name = "candle::conv2d".to_owned();
        assert!(missing(NAME, candle).contains("only tch"));
        assert!(missing(NAME, steps(100, 0.02)).contains("Tensor"));
    }
}
