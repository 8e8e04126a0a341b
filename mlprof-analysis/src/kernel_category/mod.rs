//! Categories of kernels, derived from their names and from the ops that launch them.
//!
//! Rules are substrings of lowercase names. They are tried in order, first on the function name
//! without template arguments, then on the full name. Therefore `vectorized_elementwise_kernel<…,
//! GeluFunctor>` is elementwise, and `cutlass::Kernel2<cutlass_80_…gemm…>` is a GEMM.

mod rules;

use mlprof_report::internals::kernel_name;

use self::rules::{HELPERS, OPS, RULES};
use crate::answers::KernelCategory;
use crate::answers::KernelCategory::{
    Attention, Convolution, Copy, Elementwise, Gemm, Memset, Normalisation, Reduction,
};
use crate::trace::Category;

/// Returns the category of device work from its name and from the innermost op around its launch.
///
/// The caller handles communication kernels, so their category is never looked up here.
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

/// Category derived from a kernel's name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByKernelName {
    Known(KernelCategory),
    /// A part of a larger operation. Contains the category to use if no such operation is known.
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

/// Returns `true` if a name contains `conv`, except as a part of `convert` or `converge`.
fn names_convolution(name: &str) -> bool {
    name.match_indices("conv").any(|(at, word)| !name[at + word.len()..].starts_with("er"))
}

/// Returns the category of PyTorch's generic kernels, which depends on their functor.
fn of_functor(category: KernelCategory, function: &str, whole: &str) -> KernelCategory {
    let has = |words: &[&str]| words.iter().any(|word| whole.contains(word));
    match category {
        Elementwise if function.contains("elementwise") && has(&["direct_copy"]) => Copy,
        // These kernels compute norms of many tensors at once, for example for gradient clipping.
        Elementwise if function.contains("multi_tensor") && has(&["normfunctor", "l2norm"]) => {
            Reduction
        }
        category => category,
    }
}

/// Returns the category of kernels that Inductor generates, such as `triton_poi_fused_add_0`.
fn of_triton(function: &str) -> Option<KernelCategory> {
    let rest = function.strip_prefix("triton_")?;
    let (kind, fused) = rest.split_once('_')?;
    let has = |word: &str| fused.contains(word);
    match kind {
        "poi" | "for" => Some(Elementwise),
        "red" | "per" | "split" if has("norm") && !has("vector_norm") => Some(Normalisation),
        // Inductor decomposes an RMS norm into these parts.
        "red" | "per" | "split" if has("mean") && has("rsqrt") => Some(Normalisation),
        "red" | "per" | "split" => Some(Reduction),
        // Kernels from templates have the op in their name.
        "tem" if has("attention") => Some(Attention),
        "tem" if has("conv") => Some(Convolution),
        "tem" => Some(Gemm),
        _ => None,
    }
}

/// Returns `true` for Candle's unary and binary kernels, such as `badd_f32` and `uexp_f16`.
fn is_of_candle(function: &str) -> bool {
    let Some((op, element)) = function.split_once('_') else { return false };
    let is_op = op.len() > 3 && op.starts_with(['b', 'u']);
    is_op && ["f16", "bf16", "f32", "f64", "u8", "u32", "i64"].contains(&element)
}

/// Returns the category of an op whose kernels include helpers.
fn of_large_op(op: &str) -> Option<KernelCategory> {
    of_op(op).filter(|category| {
        matches!(category, Attention | Convolution | Gemm | Normalisation | Reduction)
    })
}

/// Returns the category of an op.
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
