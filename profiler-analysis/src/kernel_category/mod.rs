//! Categories of kernels, by their names and by the ops that launch them.
//!
//! Rules are substrings of lowercase names. They are tried in their order, first on the function's
//! name without template arguments, then on the whole name. So `vectorized_elementwise_kernel<…,
//! GeluFunctor>` is elementwise, and `cutlass::Kernel2<cutlass_80_…gemm…>` a GEMM.

use profiler_report::internals::kernel_name;

use crate::answers::KernelCategory;
use crate::answers::KernelCategory::{
    Attention, Convolution, Copy, Elementwise, Gemm, Memset, Normalisation, Reduction,
};
use crate::trace::Category;

/// Categories in the order in which they are tried, with the words that tell them.
const RULES: [(KernelCategory, &[&str]); 9] = [
    // Before attention and embeddings: rotary embeddings are applied element by element.
    (Elementwise, &["rotary", "rope_kernel", "_rope", "apply_rope"]),
    (Attention, ATTENTION),
    (Normalisation, NORMALISATION),
    (Convolution, CONVOLUTION),
    (Gemm, GEMM),
    (Memset, &["memset", "fillbuffer"]),
    // Softmax, scans, arg-max, top-k and losses walk over a dimension as sums do.
    (Reduction, REDUCTION),
    (Copy, COPY),
    (Elementwise, ELEMENTWISE),
];

const ATTENTION: &[&str] = &[
    "flash_fwd",
    "flash_bwd",
    "mha",
    "attention",
    "attn",
    "flashatt",
    "sdpa",
    "mla_decode",
    "mla_prefill",
    "flash_mla",
    "mla_a8w8",
    "mla_a16w16",
    "mla_pfl",
    "mla_dec",
    "batchprefillwith",
    "batchdecodewith",
    "singleprefillwith",
    "singledecodewith",
    "_fwd_grouped_kernel_stage",
    "_fwd_kernel_stage",
    "xqa_",
];

const NORMALISATION: &[&str] = &[
    "layer_norm",
    "layernorm",
    "rms_norm",
    "rmsnorm",
    "batch_norm",
    "batchnorm",
    "group_norm",
    "groupnorm",
    "instance_norm",
    "instancenorm",
    "l2norm_fwd",
    "l2norm_bwd",
    "bn_fw",
    "bn_bw",
    "ln_fwd",
    "ln_bwd",
    "add_norm",
    "norm_fwd",
    "norm_bwd",
    "rowwisemoments",
    "gammabeta",
    "gradgammabeta",
    "computegradinput",
];

const CONVOLUTION: &[&str] = &[
    "fprop",
    "dgrad",
    "wgrad",
    "implicit_gemm",
    "implicitgemm",
    "igemm_fwd",
    "igemm_bwd",
    "igemm_wrw",
    "winograd",
    "im2col",
    "col2im",
    "vol2col",
    "col2vol",
    "scudnn",
    "hcudnn",
    "884cudnn",
    "1688cudnn",
    "16816cudnn",
];

const GEMM: &[&str] = &[
    "gemm",
    "gemv",
    "matmul",
    "cijk_",
    "cublas",
    "nvjet",
    "xmma",
    "splitk",
    "bmm_",
    "_mm_",
    "addmm",
    "fused_moe",
    "ck_moe",
    "flatmm",
    "marlin",
    "gptq",
    "awq_",
    "llmm",
    "_tensorop",
    "_s1688",
    "_s16816",
    "884_",
];

const COPY: &[&str] = &[
    "memcpy",
    "copy",
    "concat",
    "catarray",
    "_cat_",
    "gather",
    "scatter",
    "index_",
    "indexselect",
    "indexfunc",
    "embedding",
    "reshape_and_cache",
    "permute",
    "triu_tril",
];

const REDUCTION: &[&str] = &[
    "reduce",
    "reduction",
    "softmax",
    "argmax",
    "argmin",
    "topk",
    "cumsum",
    "cumprod",
    "scan",
    "welford",
    "nll_loss",
    "cross_entropy",
    "crossentropy",
    "logsumexp",
    "sum_kernel",
    "moe_sum",
    "fast_sum",
    "fast_max",
    "fast_min",
];

const ELEMENTWISE: &[&str] = &[
    "elementwise",
    "elemwise",
    "pointwise",
    "multi_tensor_apply",
    "foreach",
    "parallel_for",
    "parallelfor",
    "adam",
    "sgd",
    "relu",
    "gelu",
    "silu",
    "swiglu",
    "sigmoid",
    "tanh",
    "dropout",
    "activation",
    "act_and_mul",
    "quant",
    "cast_",
    "_cast",
    "convert",
    "fill",
    "masked",
    "clamp",
    "arange",
    "distribution",
    "binop",
    "unary",
    "affine_",
    // XLA's fused loops.
    "loop_",
    "_fusion",
];

/// Parts of libraries' larger operations: the op around them decides, as the name alone cannot.
const HELPERS: [(KernelCategory, &[&str]); 2] = [
    (Copy, &["transpose", "nchwtonhwc", "nhwctonchw", "nchw2nhwc", "nhwc2nchw"]),
    (Elementwise, &["subtensorop", "optensor", "op1dtensor", "op2dtensor", "op3dtensor"]),
];

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

/// Ops by their names without namespace.
const OPS: [(KernelCategory, &[&str]); 4] = [
    (
        Gemm,
        &[
            "mm",
            "bmm",
            "addmm",
            "addmm_",
            "baddbmm",
            "baddbmm_",
            "addbmm",
            "linear",
            "matmul",
            "mv",
            "addmv",
            "addmv_",
            "dot",
            "vdot",
            "_scaled_mm",
            "_grouped_mm",
            "_scaled_grouped_mm",
            "_int_mm",
            "einsum",
        ],
    ),
    (
        Reduction,
        &[
            "sum",
            "nansum",
            "mean",
            "prod",
            "max",
            "min",
            "amax",
            "amin",
            "aminmax",
            "argmax",
            "argmin",
            "any",
            "all",
            "std",
            "var",
            "var_mean",
            "norm",
            "linalg_vector_norm",
            "_foreach_norm",
            "cumsum",
            "cumprod",
            "logsumexp",
            "topk",
            "count_nonzero",
        ],
    ),
    (
        Copy,
        &[
            "copy_",
            "_to_copy",
            "to",
            "clone",
            "contiguous",
            "cat",
            "stack",
            "index",
            "index_select",
            "index_put_",
            "_index_put_impl_",
            "gather",
            "scatter",
            "scatter_",
            "embedding",
            "repeat",
            "flip",
            "roll",
        ],
    ),
    (
        Elementwise,
        &[
            "add",
            "sub",
            "rsub",
            "mul",
            "div",
            "pow",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "neg",
            "abs",
            "where",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "fill",
            "zero",
            "sin",
            "cos",
            "erf",
            "addcmul",
            "addcdiv",
            "lerp",
            "bernoulli",
            "uniform",
            "normal",
            "random",
        ],
    ),
];

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
