//! Categories of kernels, by their names and by the ops that launch them.
//!
//! Rules are substrings of lowercase names. They are tried in their order, first on the function's
//! name without template arguments, then on the whole name. So `vectorized_elementwise_kernel<…,
//! GeluFunctor>` is elementwise, and `cutlass::Kernel2<cutlass_80_…gemm…>` a GEMM.

mod rules;

use mlprof_report::internals::kernel_name;

use self::rules::{HELPERS, OPS, RULES};
use crate::answers::KernelCategory;
use crate::answers::KernelCategory::{
    Attention, Convolution, Copy, Elementwise, Gemm, Memset, Normalisation, Reduction,
};
use crate::trace::Category;

/// Returns the category of a device's work by its name and by the innermost op around its launch.
///
/// Kernels that communicate are known before: their category is not looked up here.
pub(crate) fn of(category: Category, name: &str, op: Option<&str>) -> KernelCategory {
    match category {
        Category::GpuMemcpy => Copy,
        Category::GpuMemset => Memset,
        _ => match of_name(name) {
            ByKernelName::Known(category) => category,
            ByKernelName::Helper(category) => op.and_then(of_large_op).unwrap_or(category),
            ByKernelName::Unknown => op.and_then(of_op).unwrap_or(KernelCategory::Other),
        },
    }
}

/// The category as far as a kernel's name alone tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByKernelName {
    Known(KernelCategory),
    /// A part of a larger operation; the category without one.
    Helper(KernelCategory),
    Unknown,
}

fn of_name(name: &str) -> ByKernelName {
    let function = kernel_name::function(name).to_ascii_lowercase();
    if let Some(category) = of_triton(&function) {
        return ByKernelName::Known(category);
    }
    let whole = name.to_ascii_lowercase();
    let known = by_words(&RULES, &function).map(|category| of_functor(category, &function, &whole));
    if let Some(category) = known {
        return ByKernelName::Known(category);
    }
    if let Some(category) = by_words(&HELPERS, &function) {
        return ByKernelName::Helper(category);
    }
    match by_words(&RULES, &whole).or_else(|| is_of_candle(&function).then_some(Elementwise)) {
        Some(category) => ByKernelName::Known(category),
        None => ByKernelName::Unknown,
    }
}

fn by_words(rules: &[(KernelCategory, &[&str])], name: &str) -> Option<KernelCategory> {
    let tells = |(category, words): &&(KernelCategory, &[&str])| {
        words.iter().any(|word| name.contains(word))
            || (*category == Convolution && names_convolution(name))
    };
    rules.iter().find(tells).map(|(category, _)| *category)
}

/// `conv`, unless it begins `convert` or `converge`.
fn names_convolution(name: &str) -> bool {
    name.match_indices("conv").any(|(at, word)| !name[at + word.len()..].starts_with("er"))
}

/// The category of PyTorch's generic kernels, which are known by their functor.
fn of_functor(category: KernelCategory, function: &str, whole: &str) -> KernelCategory {
    let has = |words: &[&str]| words.iter().any(|word| whole.contains(word));
    match category {
        Elementwise if function.contains("elementwise") && has(&["direct_copy"]) => Copy,
        // Norms of many tensors at once, such as those that gradients are clipped by.
        Elementwise if function.contains("multi_tensor") && has(&["normfunctor", "l2norm"]) => {
            Reduction
        }
        category => category,
    }
}

/// Kernels that Inductor generates: `triton_poi_fused_add_0`.
fn of_triton(function: &str) -> Option<KernelCategory> {
    let rest = function.strip_prefix("triton_")?;
    let (kind, fused) = rest.split_once('_')?;
    let has = |word: &str| fused.contains(word);
    match kind {
        "poi" | "for" => Some(Elementwise),
        "red" | "per" | "split" if has("norm") && !has("vector_norm") => Some(Normalisation),
        // The parts that an RMS norm is decomposed into.
        "red" | "per" | "split" if has("mean") && has("rsqrt") => Some(Normalisation),
        "red" | "per" | "split" => Some(Reduction),
        // Templates: the op is in the name.
        "tem" if has("attention") => Some(Attention),
        "tem" if has("conv") => Some(Convolution),
        "tem" => Some(Gemm),
        _ => None,
    }
}

/// Candle's kernels of one or two operands: `badd_f32`, `uexp_f16`.
fn is_of_candle(function: &str) -> bool {
    let Some((op, element)) = function.split_once('_') else { return false };
    let is_op = op.len() > 3 && op.starts_with(['b', 'u']);
    is_op && ["f16", "bf16", "f32", "f64", "u8", "u32", "i64"].contains(&element)
}

/// Ops whose kernels include helpers.
fn of_large_op(op: &str) -> Option<KernelCategory> {
    of_op(op).filter(|category| {
        matches!(category, Attention | Convolution | Gemm | Normalisation | Reduction)
    })
}

/// Returns the category of what an op computes.
fn of_op(op: &str) -> Option<KernelCategory> {
    let lower = op.to_ascii_lowercase();
    let own = lower.rsplit("::").next().unwrap_or(&lower);
    let is_one = |(_, ops): &&(KernelCategory, &[&str])| {
        ops.iter().any(|name| *name == own || own.strip_suffix('_') == Some(name))
    };
    let exact = OPS.iter().find(is_one).map(|(category, _)| *category);
    exact.or_else(|| by_words(&RULES, own))
}

#[cfg(test)]
mod tests;
