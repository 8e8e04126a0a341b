//! Rule `double-precision`: some ops use 64-bit floating-point numbers while others use fewer bits.

use mlprof_events::{ActionKind, DType, TensorShape};

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, share};
use crate::tensor::KeyAverage;

pub(super) static RULE: Rule = Rule {
    name: "double-precision",
    condition: "ops on large 64-bit tensors take a large part of the recorded steps",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "minimum share of the recorded steps for ops on large 64-bit tensors",
        },
        Threshold {
            name: "least-elements",
            default: 1000.0,
            why: "minimum number of elements: smaller tensors such as losses and means cost the \
                  same with every type",
        },
        Threshold {
            name: "deliberate",
            default: 0.9,
            why: "share of 64-bit ops in the floating-point time from which 64-bit is probably \
                  intended: the finding is then a hint",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let shaped = || {
        let ops = facts.ops().iter().filter(|row| row.kind == ActionKind::Op);
        ops.filter_map(|row| Some((row, row.input_shapes.as_deref()?)))
    };
    if shaped().next().is_none() {
        return Outcome::no_inputs(
            "the report does not group ops by input shapes: turn on `group_by_input_shapes` of the \
             Tensor profiler",
        );
    }
    let is_on = |shapes: &[TensorShape], types: &[DType]| {
        let least = limits[1];
        shapes.iter().any(|shape| {
            matches!(shape, TensorShape::Tensor(dtype, dimensions)
            if types.contains(dtype) && elements(dimensions) >= least)
        })
    };
    let seconds = |types: &[DType]| -> f64 {
        let of_types = shaped().filter(|(_, shapes)| is_on(shapes, types));
        of_types.map(|(row, _)| own_seconds(row)).sum()
    };
    let double = seconds(&[DType::Float64]);
    let all = seconds(&[DType::Float64, DType::Float32, DType::Float16, DType::BFloat16]);
    let evidence = [
        Evidence::new("64-bit ops", duration(double)),
        Evidence::new("floating-point ops", duration(all)),
    ];
    // 32-bit numbers need half the bytes, and a register holds twice as many of them.
    let saved = 0.5 * double;
    if facts.share(double) < limits[0] {
        return Outcome::healthy(evidence);
    }
    let longest = shaped()
        .filter(|(_, shapes)| is_on(shapes, &[DType::Float64]))
        .max_by(|(one, _), (other, _)| own_seconds(one).total_cmp(&own_seconds(other)));
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Ops on 64-bit floating-point numbers took {} ({}).",
            duration(double),
            share(facts.share(double), 1.0)
        ),
        evidence: evidence.into(),
        place: longest.map_or_else(Place::default, |(row, _)| place_of_op(row)),
        cost: facts.estimated_cost(saved),
        confidence: match double < limits[2] * all {
            true => Confidence::Likely,
            false => Confidence::Hint,
        },
        remedy: remedy(facts.framework).to_owned(),
    }])
}

fn elements(dimensions: &[i64]) -> f64 {
    dimensions.iter().map(|length| *length as f64).product()
}

fn own_seconds(row: &KeyAverage) -> f64 {
    match row.self_device_seconds > 0.0 {
        true => row.self_device_seconds,
        false => row.self_cpu_seconds,
    }
}

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Tch => {
            "convert inputs to 32 bits where they enter the program (`.to_kind(Kind::Float)`): one \
             64-bit input makes all results 64-bit."
        }
        _ => {
            "convert inputs to 32 bits where they enter the program (`.to_dtype(DType::F32)`, \
              `Vec<f32>`)."
        }
    }
}

#[cfg(test)]
mod tests {
    use mlprof_events::{DType, TensorShape};

    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, op, recorded};
    use crate::tensor::KeyAverage;

    const NAME: &str = "double-precision";

    fn on(dtype: DType, dimensions: &[i64], seconds: f64) -> KeyAverage {
        let shapes = vec![TensorShape::Tensor(dtype, dimensions.to_vec())];
        KeyAverage { input_shapes: Some(shapes), ..op("aten::mul", 100, seconds) }
    }

    #[test]
    fn doubles_among_floats_are_found() {
        let floats = on(DType::Float32, &[64, 64], 1.0);
        let report = recorded(vec![floats, on(DType::Float64, &[64, 64], 0.8)]);
        let finding = found(NAME, report);
        close(finding.cost.seconds, 0.4, 0.001);
        assert_eq!(finding.confidence, Confidence::Likely);
        assert!(finding.remedy.contains("Kind::Float"), "{finding:?}");
    }

    #[test]
    fn programs_with_only_doubles_get_a_hint() {
        let finding = found(NAME, recorded(vec![on(DType::Float64, &[64, 64], 0.8)]));
        assert_eq!(finding.confidence, Confidence::Hint);
    }

    #[test]
    fn a_loss_is_not_and_neither_are_floats() {
        healthy(NAME, recorded(vec![on(DType::Float64, &[], 0.8)]));
        healthy(NAME, recorded(vec![on(DType::Float32, &[64, 64], 1.8)]));
        assert!(missing(NAME, recorded(vec![op("aten::mul", 1, 1.0)])).contains("shapes"));
    }
}
