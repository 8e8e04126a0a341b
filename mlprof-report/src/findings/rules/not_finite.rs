//! Rule `not-finite`: the first number that is NaN or infinite.

use super::troubles::{NO_NUMBERS, capitalized, place};
use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::rule::{Outcome, Rule};
use crate::missing::ops_remedy;
use crate::number::grouped;
use crate::numerics::{NumericsReport, RecordedTensor, shown_number};

pub(super) static RULE: Rule = Rule {
    name: "not-finite",
    condition: "a tensor contains NaN or infinity",
    thresholds: &[],
    is_of_time: false,
    examine,
};

fn examine(facts: &Facts<'_>, _limits: &[f64]) -> Outcome {
    let Report::Numerics(report) = facts.report else {
        return Outcome::no_inputs(NO_NUMBERS);
    };
    let Some(first) = &report.first_not_finite else {
        return match report.tensors.is_empty() && !report.is_watched {
            true => Outcome::no_inputs("no step was recorded or watched"),
            false => Outcome::healthy([
                Evidence::new("steps", grouped(report.steps)),
                Evidence::new("fully watched", report.is_watched.to_string()),
            ]),
        };
    };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!("{}.", capitalized(&first.what_is_not_finite())),
        evidence: evidence(report, first),
        place: Place {
            thread: Some(first.thread.clone()),
            source: first.source.clone(),
            ..place(first.role, &first.name)
        },
        cost: Facts::cost_of_learning(),
        confidence: Confidence::Certain,
        remedy: remedy(report, first),
    }])
}

fn evidence(report: &NumericsReport, first: &RecordedTensor) -> Vec<Evidence> {
    let mut evidence = vec![
        Evidence::new("step", first.step.to_string()),
        Evidence::new("NaN", grouped(first.statistics.nans)),
        Evidence::new("infinite", grouped(first.statistics.infinities)),
        Evidence::new("numbers", grouped(first.statistics.count)),
        Evidence::new("non-finite tensors", grouped(report.not_finite)),
    ];
    // If a device only counted the numbers, the range of the input is unknown.
    if let Some(input) = first.input.as_ref().filter(|input| input.minimum.is_some()) {
        let range = format!("{} to {}", shown_number(input.minimum), shown_number(input.maximum));
        evidence.push(Evidence::new("its input", range));
    }
    evidence
}

fn remedy(report: &NumericsReport, first: &RecordedTensor) -> String {
    if first.interval.is_some() && report.first_op_not_finite.is_none() {
        // If a framework's hooks report ops, the next step names the op. Otherwise the report's
        // notes explain why it is unknown.
        let frameworks = &report.header.frameworks;
        let op = match frameworks.iter().any(|framework| framework.name == "tch") {
            true => "turn on `NumericsProfiler::ops(true)`".to_owned(),
            false => ops_remedy(frameworks, " --numerics"),
        };
        return format!(
            "look at the computation there; to name the op, {op}; `stop_on_nan(true)` ends the \
             training there."
        );
    }
    let remedy = match &first.input {
        Some(input) if input.is_finite() => {
            "look for the operation that creates it: a logarithm or a division of 0, a root of a \
             negative number, an exponential of a large number, or 16-bit numbers; \
             `stop_on_nan(true)` ends the training there, and `save_tensors(true)` keeps the \
             tensors."
        }
        _ => {
            "look at the source of its input: wrap the layers before it (`.profile_layer(…)`) to \
             name the first one; `stop_on_nan(true)` ends the training there."
        }
    };
    remedy.to_owned()
}

#[cfg(test)]
mod tests {
    use mlprof_events::TensorRole;

    use crate::finding::Confidence;
    use crate::findings::samples::{found, healthy, missing, numbers, steps};
    use crate::numerics::tests::{recorded, row};

    #[test]
    fn the_first_one_is_found_and_finite_numbers_are_healthy() {
        let mut report = numbers(vec![row(TensorRole::Output, "a", &[&[1.0; 4]])]);
        healthy("not-finite", report.clone());
        report.first_not_finite = Some(recorded("[module]Linear: head", &[f32::NAN, 1.0]));
        report.not_finite = 3;
        let finding = found("not-finite", report.clone());
        assert_eq!(finding.confidence, Confidence::Certain);
        assert_eq!(finding.place.action.as_deref(), Some("[module]Linear: head"));
        assert_eq!(finding.place.source.as_deref(), Some("src/net.rs:36"));
        assert!(finding.sentence.starts_with("In step 12 the output of [module]Linear: head"));
        let interval = crate::numerics::FaultInterval::Update;
        report.first_not_finite.as_mut().expect("it is there").interval = Some(Box::new(interval));
        report.header.frameworks =
            vec![mlprof_events::Framework { name: "candle".to_owned(), ..Default::default() }];
        let remedy = found("not-finite", report).remedy;
        assert!(remedy.contains("`mlprof run --ops candle --numerics -- …`"), "{remedy}");
        let mut unwatched = numbers(Vec::new());
        unwatched.is_watched = false;
        assert!(missing("not-finite", unwatched).contains("no step"));
        assert!(missing("not-finite", steps(100, 0.02)).contains("numerics"));
    }
}
