//! Rule `unaligned-matmul`: dimensions of 16-bit matrices do not fit the tile size of tensor cores.

use mlprof_events::{ActionKind, DType, TensorShape};

use crate::finding::{Confidence, Evidence, Finding};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, share};
use crate::tensor::device_seconds;

pub(super) static RULE: Rule = Rule {
    name: "unaligned-matmul",
    condition: "a device multiplies 16-bit matrices whose sides are not multiples of 8",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "minimum share of device time in the recorded steps for such ops",
        },
        Threshold {
            name: "multiple",
            default: 8.0,
            why: "required divisor of the last two sides of a 16-bit matrix: 8 numbers are the 16 \
                  bytes that tensor cores read at once",
        },
    ],
    is_of_time: true,
    examine,
};

/// Names of matrix multiplications without the framework's prefix.
const MATMULS: &[&str] = &["mm", "bmm", "addmm", "baddbmm", "linear", "matmul"];

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let matmuls = || {
        let ops = facts.ops().iter().filter(|row| row.kind == ActionKind::Op);
        let is_matmul = |name: &str| MATMULS.contains(&name.rsplit("::").next().unwrap_or(name));
        let timed = ops.filter(move |row| is_matmul(&row.name) && row.self_device_seconds > 0.0);
        timed.filter_map(|row| Some((row, row.input_shapes.as_deref()?)))
    };
    if matmuls().next().is_none() {
        return Outcome::no_inputs(
            "the report has no matrix multiplications on a device, grouped by input shapes: turn \
             on `group_by_input_shapes` of the Tensor profiler",
        );
    }
    let unaligned =
        || matmuls().filter(|(_, shapes)| shapes.iter().any(|shape| is_odd(shape, limits[1])));
    let seconds = device_seconds(unaligned().map(|(row, _)| row));
    let all = device_seconds(matmuls().map(|(row, _)| row));
    let evidence = [
        Evidence::new("unaligned 16-bit matrices", duration(seconds)),
        Evidence::new("all matrices", duration(all)),
    ];
    let longest = unaligned().max_by(|(one, _), (other, _)| {
        one.self_device_seconds.total_cmp(&other.self_device_seconds)
    });
    let Some((row, shapes)) = longest.filter(|_| facts.share(seconds) >= limits[0]) else {
        return Outcome::healthy(evidence);
    };
    let mut evidence = Vec::from(evidence);
    evidence.push(Evidence::new("longest op", crate::tensor::table::shapes_text(shapes)));
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Multiplying 16-bit matrices whose sides are not multiples of {} took {} of device \
             time ({}).",
            limits[1],
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence,
        place: place_of_op(row),
        cost: facts.cost(seconds),
        // Newer libraries use tensor cores anyway, but more slowly. The report does not show how
        // much more slowly.
        confidence: Confidence::Hint,
        remedy: format!(
            "pad the dimensions (the vocabulary, hidden sizes, batches) to a multiple of {}.",
            limits[1]
        ),
    }])
}

/// Returns `true` for a 16-bit matrix if one of its last two dimensions is not a multiple of
/// `multiple`.
fn is_odd(shape: &TensorShape, multiple: f64) -> bool {
    let TensorShape::Tensor(DType::Float16 | DType::BFloat16, dimensions) = shape else {
        return false;
    };
    let sides = dimensions.iter().rev().take(2);
    dimensions.len() >= 2 && sides.into_iter().any(|side| (*side as f64) % multiple != 0.0)
}

#[cfg(test)]
mod tests {
    use mlprof_events::{DType, TensorShape};

    use crate::findings::samples::{close, found, healthy, missing, op, recorded};
    use crate::tensor::KeyAverage;

    const NAME: &str = "unaligned-matmul";

    fn matmul(dtype: DType, sides: [i64; 3], device_seconds: f64) -> KeyAverage {
        let [rows, inner, columns] = sides;
        let matrix = |sides: [i64; 2]| TensorShape::Tensor(dtype, sides.into());
        KeyAverage {
            input_shapes: Some(vec![matrix([rows, inner]), matrix([inner, columns])]),
            self_device_seconds: device_seconds,
            device_seconds,
            ..op("aten::mm", 100, 0.01)
        }
    }

    #[test]
    fn an_odd_vocabulary_is_found() {
        let odd = matmul(DType::BFloat16, [512, 768, 50257], 0.6);
        let even = matmul(DType::BFloat16, [512, 768, 768], 0.4);
        let finding = found(NAME, recorded(vec![even, odd]));
        close(finding.cost.seconds, 0.6, 0.001);
        let seen = &finding.evidence.last().expect("the shapes").value;
        assert!(seen.contains("50257"), "{seen}");
    }

    #[test]
    fn multiples_of_eight_are_not_and_neither_are_32_bits() {
        healthy(NAME, recorded(vec![matmul(DType::BFloat16, [512, 768, 50304], 1.6)]));
        healthy(NAME, recorded(vec![matmul(DType::Float32, [512, 768, 50257], 1.6)]));
        healthy(NAME, recorded(vec![matmul(DType::BFloat16, [512, 768, 50257], 0.1)]));
        let without = op("aten::mm", 100, 0.5);
        assert!(missing(NAME, recorded(vec![without])).contains("shapes"));
    }
}
