//! Rule `gradients-in-evaluation`: validation or tests keep data for a backward pass.

use mlprof_events::{ActionKind, EvaluatedOutputs, Stage};

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::{Report, TensorReport};

pub(super) static RULE: Rule = Rule {
    name: "gradients-in-evaluation",
    condition: "validation, test or prediction records ops for a backward pass",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.25,
            why: "minimum share of recorded ops: for a model about two fifths are recorded, \
                  because parts of an op are not; making batches also records ops unless it is \
                  turned off",
        },
        Threshold {
            name: "least-ops",
            default: 100.0,
            why: "minimum number of ops, so that the model dominates",
        },
        Threshold {
            name: "seconds-per-op",
            default: 2e-6,
            why: "seconds to record an op in tch: creating the node, storing its inputs, and \
                  freeing both",
        },
        Threshold {
            name: "saved-with-candle",
            default: 0.2,
            why: "share of a single-threaded forward pass of convolutions that records the graph, \
                  with candle",
        },
        Threshold {
            name: "least-saved",
            default: 0.02,
            why: "minimum share of the total time for the saving, with candle",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    if let Some(evaluated) = of_candle(facts) {
        return examine_candle(facts, evaluated, limits);
    }
    let Report::Tensor(report) = facts.report else {
        return Outcome::no_inputs(
            "only the Tensor profiler's report has ops, and the report does not contain outputs of \
             candle modules in an evaluation",
        );
    };
    let stages = [Stage::Validate, Stage::Test, Stage::Predict];
    if !report.header.stage.is_some_and(|stage| stages.contains(&stage)) {
        return Outcome::no_inputs("the report does not cover a validation, test or prediction");
    }
    if facts.framework != Framework::Tch {
        return Outcome::no_inputs("only tch numbers the ops that it records for a backward pass");
    }
    examine_tch(facts, report, limits)
}

fn examine_tch(facts: &Facts<'_>, report: &TensorReport, limits: &[f64]) -> Outcome {
    let is_op = |row: &&crate::tensor::KeyAverage| row.kind == ActionKind::Op;
    let ops: u64 = facts.ops().iter().filter(is_op).map(|row| row.calls).sum();
    let tracked = report.tracked_ops as f64;
    let part = if ops > 0 { tracked / ops as f64 } else { 0.0 };
    let evidence = [
        Evidence::new("recorded ops", grouped(report.tracked_ops)),
        Evidence::new("all ops", grouped(ops)),
    ];
    if part < limits[0] || tracked < limits[1] {
        return Outcome::healthy(evidence);
    }
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "{} ops ({}) were recorded for a backward pass that never runs.",
            grouped(report.tracked_ops),
            share(part, 1.0)
        ),
        evidence: evidence.into(),
        place: Place::default(),
        cost: facts.estimated_cost(tracked * limits[2]),
        confidence: Confidence::Likely,
        remedy: "evaluate within `tch::no_grad` (or a `tch::no_grad_guard`), which frees each \
                 intermediate result as soon as the next one exists."
            .to_owned(),
    }])
}

/// Returns the counts of module outputs in evaluations, as recorded for candle.
fn of_candle(facts: &Facts<'_>) -> Option<EvaluatedOutputs> {
    let mut known = facts.report.header().frameworks.iter();
    known.find(|known| known.name == "candle")?.evaluated
}

/// Hooks that evaluate a network.
const EVALUATING: [&str; 3] = ["validation_step", "test_step", "predict_step"];

fn examine_candle(facts: &Facts<'_>, evaluated: EvaluatedOutputs, limits: &[f64]) -> Outcome {
    let steps = facts.actions.iter().filter(|action| EVALUATING.contains(&action.hook()));
    let Some(longest) =
        steps.clone().max_by(|one, other| one.total_seconds.total_cmp(&other.total_seconds))
    else {
        return Outcome::no_inputs("the report has no batches of a validation, test or prediction");
    };
    let seconds: f64 = steps.map(|action| action.total_seconds).sum();
    let part = evaluated.remembered as f64 / evaluated.outputs.max(1) as f64;
    let cost = facts.estimated_cost(seconds * part * limits[3]);
    let evidence = [
        Evidence::new("module outputs in evaluations", grouped(evaluated.outputs)),
        Evidence::new("outputs with a recorded graph", grouped(evaluated.remembered)),
        Evidence::new("evaluation time", duration(seconds)),
    ];
    if part < limits[0] || cost.share < limits[4] {
        return Outcome::healthy(evidence);
    }
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "{} of the module outputs in evaluations keep the graph of their computation for a \
             backward pass that never runs.",
            share(part, 1.0)
        ),
        evidence: evidence.into(),
        place: Place::action(longest.name),
        cost,
        // On several threads, the cost may be hidden by the time that they wait for each other.
        confidence: Confidence::Hint,
        remedy:
            "evaluate with a network that is built once from `detached_var_builder(&vars, …)`: \
                 it shares the memory of the variables, so it has the trained values, and candle \
                 records no graph."
                .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use mlprof_events::{EvaluatedOutputs, Framework, Stage};

    use crate::TensorReport;
    use crate::findings::samples::{close, found, healthy, missing, op, recorded, row, steps};
    use crate::simple::SimpleReport;

    const NAME: &str = "gradients-in-evaluation";

    /// Builds the report of a test with 10,000 ops, of which `tracked_ops` are tracked for a
    /// backward pass.
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
        // This count was measured on a small network. Composite ops contain other ops.
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
        assert!(missing(NAME, trained).contains("not cover a validation"));
        let mut candle = tested(0);
        candle.key_averages.rows[0].name = "candle::conv2d".to_owned();
        assert!(missing(NAME, candle).contains("only tch"));
        assert!(missing(NAME, steps(100, 0.02)).contains("Tensor"));
    }

    /// Builds the report of a fit with candle that takes ten seconds, five of them in validation
    /// steps. Of a thousand outputs, `remembered` were tracked.
    fn evaluated(remembered: u64) -> SimpleReport {
        let mut report = steps(100, 0.1);
        report.actions.push(row("[Strategy]SingleDeviceStrategy.validation_step", 50, 5.0));
        report.header.frameworks.push(Framework {
            name: "candle".to_owned(),
            evaluated: Some(EvaluatedOutputs { outputs: 1_000, remembered }),
            ..Framework::default()
        });
        report
    }

    #[test]
    fn evaluations_with_candle_graphs_are_found() {
        let finding = found(NAME, evaluated(1_000));
        close(finding.cost.seconds, 1.0, 0.01);
        assert!(finding.cost.is_estimated && finding.remedy.contains("detached_var_builder"));
        let place = finding.place.action.as_deref().expect("an action");
        assert!(place.ends_with("validation_step"), "{finding:?}");
        // One of two networks was built from trainable variables.
        close(found(NAME, evaluated(500)).cost.seconds, 0.5, 0.01);
        healthy(NAME, evaluated(200));
        healthy(NAME, evaluated(0));
        let mut short = evaluated(1_000);
        short.actions.last_mut().expect("a row").total_seconds = 0.5;
        healthy(NAME, short);
        let mut none = evaluated(1_000);
        none.actions.pop();
        assert!(missing(NAME, none).contains("no batches of a validation"));
    }
}
