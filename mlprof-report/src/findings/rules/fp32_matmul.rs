//! Rule `fp32-matmul`: 32-bit matrix multiplications do not use tensor cores.

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::tensor::device_seconds;

pub(super) static RULE: Rule = Rule {
    name: "fp32-matmul",
    condition: "kernels that multiply 32-bit matrices without tensor cores take a large part of \
                the steps",
    thresholds: &[Threshold {
        name: "share",
        default: 0.2,
        why: "minimum share of the recorded steps for such kernels",
    }],
    is_of_time: true,
    examine,
};

/// Maximum part of the time that tensor cores save. They are at most eight times as fast, as on an
/// A100 with TF32.
const SAVED: f64 = 7.0 / 8.0;

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let kernels = || facts.ops().iter().filter(|row| row.is_on_device);
    if kernels().next().is_none() {
        return Outcome::no_inputs("the report has no device activity");
    }
    let slow = || kernels().filter(|row| is_without_tensor_cores(&row.name));
    let seconds = device_seconds(slow());
    let evidence = [
        Evidence::new("32-bit matrix kernels", grouped(slow().map(|row| row.calls).sum())),
        Evidence::new("device time", duration(seconds)),
        Evidence::new("share", share(facts.share(seconds), 1.0)),
    ];
    let longest =
        slow().max_by(|one, other| one.self_device_seconds.total_cmp(&other.self_device_seconds));
    let Some(kernel) = longest.filter(|_| facts.share(seconds) >= limits[0]) else {
        return Outcome::healthy(evidence);
    };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Multiplying 32-bit matrices without tensor cores took {} of device time ({}).",
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: Place::kernel(&*kernel.name),
        cost: facts.estimated_cost(SAVED * seconds),
        // Fewer bits change the results, and some devices have no tensor cores.
        confidence: Confidence::Hint,
        remedy: remedy(facts.framework).to_owned(),
    }])
}

/// Returns `true` for a 32-bit matrix kernel of cuBLAS or CUTLASS that does not use tensor cores.
/// Examples are `ampere_sgemm_128x64_nn` and `cutlass_80_simt_sgemm_…`. Tensor-core kernels are
/// named `…_s1688gemm_…` or contain `tf32`.
fn is_without_tensor_cores(name: &str) -> bool {
    (name.contains("sgemm") || name.contains("_gemm_f32f32_f32f32_f32_"))
        && !["tf32", "tensorop", "s1688", "s16816", "s884"].iter().any(|part| name.contains(part))
}

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Burn => {
            "if accuracy allows it, train in 16 bits, or with `DType::Flex32`, for which CubeCL \
             uses tensor cores."
        }
        Framework::Tch => {
            "if accuracy allows it, compute in 16 bits (`tch::autocast`), or let cuBLAS use TF32 \
             (environment variable `NVIDIA_TF32_OVERRIDE=1`)."
        }
        _ => {
            "if accuracy allows it, multiply matrices with reduced precision \
             (`candle_core::cuda::set_gemm_reduced_precision_f32`), or train in `DType::BF16`."
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, kernel, missing, op, recorded};

    const NAME: &str = "fp32-matmul";

    #[test]
    fn matrices_without_tensor_cores_are_found_and_those_with_are_not() {
        for name in ["ampere_sgemm_128x64_nn", "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32>"]
        {
            let finding = found(NAME, recorded(vec![kernel(name, 500, 0.8)]));
            close(finding.cost.seconds, 0.7, 0.001);
            assert_eq!(finding.confidence, Confidence::Hint);
            assert_eq!(finding.place.kernel.as_deref(), Some(name));
            healthy(NAME, recorded(vec![kernel(name, 500, 0.1)]));
        }
        for name in [
            "ampere_s1688gemm_tf32_128x64_nn",
            "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64",
            "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
        ] {
            healthy(NAME, recorded(vec![kernel(name, 500, 1.8)]));
        }
        assert!(missing(NAME, recorded(vec![op("aten::mm", 9, 1.0)])).contains("device activity"));
    }
}
