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
    condition: "in validation, test or prediction ops are remembered for a backward pass",
    thresholds: &[
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
            why: "what remembering an op of tch takes: the node, what it keeps, and freeing both",
        },
        Threshold {
            name: "saved-with-candle",
            default: 0.2,
            why: "the part of a forward of convolutions on one thread that went into keeping what it is made of",
        },
        Threshold {
            name: "least-saved",
            default: 0.02,
            why: "the part of all of the time that it must be, with candle",
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
            "only the report of the Tensor profiler has ops, and nothing says what modules of candle \
             have returned in an evaluation",
        );
    };
    let stages = [Stage::Validate, Stage::Test, Stage::Predict];
    if !report.header.stage.is_some_and(|stage| stages.contains(&stage)) {
        return Outcome::no_inputs("the report is not of a validation, test or prediction");
    }
    if facts.framework != Framework::Tch {
        return Outcome::no_inputs("only tch numbers the ops that it remembers");
    }
    examine_tch(facts, report, limits)
}

fn examine_tch(facts: &Facts<'_>, report: &TensorReport, limits: &[f64]) -> Outcome {
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
        rule: RULE.name.to_owned(),
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
        Evidence::new("outputs of modules, in evaluations", grouped(evaluated.outputs)),
        Evidence::new("of them remembered", grouped(evaluated.remembered)),
        Evidence::new("evaluations took", duration(seconds)),
    ];
    if part < limits[0] || cost.share < limits[4] {
        return Outcome::healthy(evidence);
    }
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "{} of what modules returned in evaluations is remembered, with all that it was computed from, for a \
             backward pass that never comes.",
            share(part, 1.0)
        ),
        evidence: evidence.into(),
        place: Place::action(longest.name),
        cost,
        // On several threads, the cost may be hidden by the time that they wait for each other.
        confidence: Confidence::Hint,
        remedy: "evaluate by a network that is made once of `detached_var_builder(&vars, …)`: it has the memory of \
                 the variables, so what is learned is in it, and candle keeps nothing for a backward pass."
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
        assert!(missing(NAME, trained).contains("not of a validation"));
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
    fn what_candle_remembers_in_evaluations_is_found_and_what_it_does_not_is_not() {
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
