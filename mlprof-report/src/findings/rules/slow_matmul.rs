//! Rule `slow-matmul`: matrices are multiplied without a BLAS.

use mlprof_events::ActionKind;

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, share};
use crate::tensor::KeyAverage;

pub(super) static RULE: Rule = Rule {
    name: "slow-matmul",
    condition: "candle, built without a BLAS, multiplies matrices on the processor for much of the \
                recorded steps",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.3,
            why: "minimum share of the recorded steps for matrix multiplication",
        },
        Threshold {
            name: "saved",
            default: 0.5,
            why: "maximum share of that time that a BLAS saves: much for small matrices on many \
                  cores, little for large ones on one core",
        },
    ],
    is_of_time: true,
    examine,
};

/// Ops that candle passes to a BLAS if it was built with one. Its convolutions are matrix
/// multiplications.
const OPS: [&str; 3] = ["candle::matmul", "candle::conv1d", "candle::conv2d"];

/// Names of candle's features that enable a BLAS.
const LIBRARIES: [&str; 2] = ["mkl", "accelerate"];

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Report::Tensor(report) = facts.report else {
        return Outcome::no_inputs("only the Tensor profiler's report has ops");
    };
    let candle = report.header.frameworks.iter().find(|known| known.name == "candle");
    let Some(candle) = candle else {
        return Outcome::no_inputs("the report does not contain the build features of candle");
    };
    let multiplied = || facts.ops().iter().filter(|row| is_multiplied(row));
    if multiplied().next().is_none() {
        return Outcome::no_inputs(
            "the report has no matrix multiplications of candle: run the program under `mlprof run \
             --ops`",
        );
    }
    let seconds: f64 = multiplied().map(|row| row.self_cpu_seconds).sum();
    let library = LIBRARIES.into_iter().find(|library| candle.has(library));
    let evidence = [
        Evidence::new("matrix multiplication", duration(seconds)),
        Evidence::new("share", share(facts.share(seconds), 1.0)),
        Evidence::new("BLAS", library.unwrap_or("none")),
    ];
    let longest =
        multiplied().max_by(|one, other| one.self_cpu_seconds.total_cmp(&other.self_cpu_seconds));
    let is_slow = library.is_none() && facts.share(seconds) >= limits[0];
    let Some(longest) = longest.filter(|_| is_slow) else { return Outcome::healthy(evidence) };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "candle multiplied matrices with its own code for {} ({}).",
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: place_of_op(longest),
        cost: facts.estimated_cost(limits[1] * seconds),
        // candle's own code is also fast, so only a measurement of both decides.
        confidence: Confidence::Hint,
        remedy:
            "try candle's feature `mkl` (x86-64) or `accelerate` (macOS), which use a BLAS, with \
             few threads so that rayon keeps its cores (`OMP_NUM_THREADS=1`), and compare: `mlprof \
             report AFTER.json --against BEFORE.json`."
                .to_owned(),
    }])
}

/// Returns `true` for ops that multiply matrices on the host. Ops with device time run on a device.
fn is_multiplied(row: &KeyAverage) -> bool {
    row.kind == ActionKind::Op
        && !row.is_on_device
        && row.device_seconds <= 0.0
        && OPS.contains(&row.name.as_str())
}

#[cfg(test)]
mod tests {
    use mlprof_events::Framework;

    use crate::TensorReport;
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, op, recorded, steps};

    const NAME: &str = "slow-matmul";

    fn multiplied(seconds: f64, features: &[&str]) -> TensorReport {
        let matmul = op("candle::matmul", 500, seconds);
        let mut report = recorded(vec![matmul, op("candle::exp", 500, 0.1)]);
        report.header.frameworks.push(Framework {
            name: "candle".to_owned(),
            features: features.iter().map(|name| (*name).to_owned()).collect(),
            ..Framework::default()
        });
        report
    }

    #[test]
    fn matrices_without_a_blas_are_found() {
        let finding = found(NAME, multiplied(1.2, &["avx2"]));
        close(finding.cost.seconds, 0.6, 0.001);
        assert_eq!(finding.confidence, Confidence::Hint);
        assert_eq!(finding.place.op.as_deref(), Some("candle::matmul"));
        assert!(finding.remedy.contains("`mkl`"), "{finding:?}");
        assert!(finding.remedy.contains("OMP_NUM_THREADS=1"), "{finding:?}");
    }

    #[test]
    fn with_one_they_are_not_nor_where_they_are_few() {
        healthy(NAME, multiplied(1.2, &["avx2", "mkl"]));
        healthy(NAME, multiplied(0.2, &["avx2"]));
        let mut elsewhere = multiplied(1.2, &[]);
        elsewhere.header.frameworks.clear();
        assert!(missing(NAME, elsewhere).contains("build features of candle"));
        let mut on_a_device = multiplied(1.2, &[]);
        on_a_device.key_averages.rows[0].device_seconds = 1.0;
        assert!(missing(NAME, on_a_device).contains("no matrix multiplications"));
        assert!(missing(NAME, steps(100, 0.02)).contains("Tensor"));
    }
}
