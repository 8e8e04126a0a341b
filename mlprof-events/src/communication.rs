//! Detection of actions and kernels by which processes and devices communicate, from their names.

/// Word sequences that begin the name of a collective: of a kernel, or of an action around the
/// call.
const COLLECTIVES: [&[&str]; 9] = [
    &["all", "reduce"],
    &["allreduce"],
    &["all", "gather"],
    &["allgather"],
    &["reduce", "scatter"],
    &["reducescatter"],
    &["all", "to", "all"],
    &["alltoall"],
    &["all", "2", "all"],
];

/// Communication libraries for devices: words in the names of their kernels.
const LIBRARIES: [&str; 19] = [
    "rccl",
    "hccl",
    "hcom",
    "oneccl",
    "xccl",
    "uccl",
    "msccl",
    "mscclpp",
    "cncl",
    "mccl",
    "eccl",
    "bkcl",
    "flagcx",
    "pplx",
    "nvls",
    "multimem",
    "quickreduce",
    "userbuffers",
    "kuserbuffers",
];

/// Prefixes of words in kernel names, for libraries with several versions.
const FAMILIES: [&str; 4] = ["nccl", "nvshmem", "rocshmem", "ishmem"];

/// Further word sequences in the names of communication kernels, from libraries and from
/// hand-written code.
const KERNELS: [&[&str]; 17] = [
    &["one", "ccl"],
    &["a", "2", "a"],
    &["cross", "device", "reduce"],
    &["quick", "reduce"],
    &["ring", "reduce"],
    &["collective", "permute"],
    &["send", "recv"],
    &["sendrecv"],
    &["put", "signal"],
    &["wait", "signal"],
    &["barrier", "kernel"],
    &["symm", "mem"],
    &["symmetric", "memory"],
    &["deep", "ep"],
    &["hybrid", "ep"],
    &["ep", "dispatch"],
    &["ep", "combine"],
];

/// Words that mark an exchange within a single device.
const WITHIN_A_DEVICE: [&str; 8] =
    ["warp", "wave", "wavefront", "block", "thread", "threads", "cta", "subgroup"];

/// Words for data that the processes of a training run synchronise.
const SHARED: [&str; 27] = [
    "gradient",
    "gradients",
    "grad",
    "grads",
    "param",
    "params",
    "parameter",
    "parameters",
    "weight",
    "weights",
    "buffer",
    "buffers",
    "model",
    "models",
    "rank",
    "ranks",
    "process",
    "processes",
    "worker",
    "workers",
    "replica",
    "replicas",
    "batchnorm",
    "norm",
    "dist",
    "ddp",
    "fsdp",
];

/// Words for something other than a process with which a program synchronises.
const DEVICES: [&str; 10] =
    ["device", "devices", "stream", "streams", "event", "events", "cuda", "gpu", "hip", "host"];

/// Returns `true` if an action with this name waits for the other processes of a training run. The
/// name, or its part after the last point, must begin with the words of a collective.
///
/// An action that synchronises counts if its name contains something that processes share.
/// `sync_gradients` counts; `synchronize` and `sync_device` do not.
///
/// ```
/// use mlprof_core::names;
/// assert!(names::waits_for_other_ranks("all_reduce_gradients"));
/// assert!(names::waits_for_other_ranks("[Strategy]Ddp.barrier"));
/// assert!(!names::waits_for_other_ranks("backward"));
/// assert!(!names::waits_for_other_ranks("synchronize"));
/// ```
pub fn waits_for_other_ranks(name: &str) -> bool {
    // This function runs inside a scope and must not allocate.
    let hook = name.rsplit_once('.').map_or(name, |(_, hook)| hook);
    let Some(first) = words(hook).next() else { return false };
    if is_any(first, &["broadcast", "barrier"]) {
        return true;
    }
    if is_any(first, &["sync", "synchronize", "synchronise"]) {
        return words(hook).any(|word| is_any(word, &SHARED))
            && !words(hook).any(|word| is_any(word, &DEVICES));
    }
    let mut collectives = COLLECTIVES.iter().filter(|words| is_any(first, &words[..1]));
    collectives.any(|collective| begins_with(words(hook), collective))
}

/// Returns `true` if a kernel with this name only moves data between devices or waits for other
/// devices.
///
/// Only the kernel's own name counts, without its template arguments and parameters. A kernel that
/// both multiplies matrices and communicates counts as computation, because the computation hides
/// the communication. A kernel that a compiler named after its ops also counts as computation.
///
/// ```
/// use mlprof_core::names;
/// assert!(names::is_communication_kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(…)"));
/// assert!(names::is_communication_kernel("void vllm::cross_device_reduce_1stage<half, 8>"));
/// assert!(!names::is_communication_kernel("void at::native::reduce_kernel<512, 1>"));
/// ```
pub fn is_communication_kernel(name: &str) -> bool {
    let own = own_name(name);
    let words: Vec<&str> = words(&own).collect();
    let has = |sequence: &[&str]| {
        let places = words.windows(sequence.len()).enumerate();
        let mut found = places.filter(|(_, part)| begins_with(part.iter().copied(), sequence));
        found.any(|(place, _)| {
            place.checked_sub(1).is_none_or(|before| !is_any(words[before], &WITHIN_A_DEVICE))
        })
    };
    if is_compiled(&words) {
        return false;
    }
    let is_of_library = |word: &&str| {
        let begins_so = |library: &&str| {
            let begin = word.get(..library.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(library))
        };
        is_any(word, &LIBRARIES) || FAMILIES.iter().any(begins_so)
    };
    let multiplies = |word: &&str| {
        let end = word.len().checked_sub(4).and_then(|start| word.get(start..));
        is_any(word, &["matmul"]) || end.is_some_and(|end| end.eq_ignore_ascii_case("gemm"))
    };
    if words.iter().any(is_of_library) {
        return !words.iter().any(multiplies);
    }
    // This kernel of DeepEP counts tokens before they are sent.
    if has(&["deep", "ep", "layout"]) || words.iter().any(multiplies) {
        return false;
    }
    COLLECTIVES.iter().chain(&KERNELS).any(|sequence| has(sequence))
}

/// Returns `true` if a compiler built the name from the ops in the kernel. An example from
/// TorchInductor is `triton_poi_fused_add_all_gather_into_tensor_0`.
fn is_compiled(words: &[&str]) -> bool {
    let kinds = ["poi", "red", "per", "for", "tem", "fused"];
    matches!(words, [first, kind, ..] if is_any(first, &["triton"]) && is_any(kind, &kinds))
}

fn is_any(word: &str, of: &[&str]) -> bool {
    of.iter().any(|other| word.eq_ignore_ascii_case(other))
}

fn begins_with<'a>(mut words: impl Iterator<Item = &'a str>, sequence: &[&str]) -> bool {
    let is_next = |expected: &&str| words.next().is_some_and(|word| is_any(word, &[*expected]));
    sequence.iter().all(is_next)
}

/// Returns the name of a kernel without template arguments, parameters and unnamed namespaces.
fn own_name(name: &str) -> String {
    let (mut own, mut open, mut previous) = (String::with_capacity(name.len()), Vec::new(), ' ');
    for letter in name.chars() {
        match letter {
            '<' | '(' => open.push(letter),
            '>' if open.last() == Some(&'<') && previous != '-' => {
                open.pop();
            }
            // A comparison in the template arguments may leave a bracket open.
            ')' => while open.pop().is_some_and(|bracket| bracket != '(') {},
            _ if open.is_empty() => own.push(letter),
            _ => {}
        }
        previous = letter;
    }
    own
}

/// Splits a name into words: `all`, `Reduce`, `2`, `KERNEL` for `all.Reduce2_KERNEL`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let letters = rest.as_bytes();
        let first = *letters.first()?;
        let ends_before = |place: usize| {
            let (before, letter) = (letters[place - 1], letters[place]);
            let is_lower_next = letters.get(place + 1).is_some_and(u8::is_ascii_lowercase);
            !letter.is_ascii_alphanumeric()
                || letter.is_ascii_digit() != first.is_ascii_digit()
                || (letter.is_ascii_uppercase() && (before.is_ascii_lowercase() || is_lower_next))
        };
        let length = (1..letters.len()).find(|place| ends_before(*place)).unwrap_or(letters.len());
        let (word, after) = rest.split_at(length);
        rest = after;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_communicate_are_known() {
        for name in [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)",
            "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
            "ncclSymDevKernel_AllReduce_RSxLD_AGxST",
            "ncclSymkDevKernel_ReduceScatter_LDMC_sum_bf16",
            "nccl:all_reduce",
            "rcclX",
            "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
            "void mscclpp::allreduce",
            "void mscclpp::allreduceAllToAll<float>(float*, float*)",
            "hcom_allReduce__604_0_1",
            "oneccl_allreduce",
            "oneCCLReduceKernel",
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
            "void c10d::symmetric_memory::(anonymous namespace)::barrier_kernel(unsigned int**)",
            "void (anonymous namespace)::put_signal_kernel(unsigned int**, unsigned long)",
            "void (anonymous namespace)::one_shot_all_reduce_kernel<c10::Half, 8, 8, false>",
            "void two_shot_all_reduce_kernel_inplace<c10::BFloat16>",
            "void vllm::cross_device_reduce_1stage<__hip_bfloat16, 8>",
            "void sglang::cross_device_reduce_2stage<half, 4>(sglang::RankData*)",
            "void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>",
            "void quickreduce::allreduce_prototype_twoshot<half>",
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
            "void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8, true>",
            "void tensorrt_llm::kernels::lamport_style_one_shot_all_reduce_norm_kernel<half>",
            "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>",
            "void moeAllToAllKernel<8>",
            "void deep_ep::intranode::dispatch<8, 768>",
            "void deep_ep::internode_ll::combine<true, 7168>",
            "void deep_ep::intranode::cached_notify_combine<8>",
            "void hybrid_ep::dispatch_kernel<4>",
            "void mori::moe::EpDispatchIntraNodeKernel<half>(mori::moe::EpDispatchCombineArgs)",
            "void pplx::AllToAllInterNode_dispatchKernel",
            "nvshmemi_transfer_rma",
            "nvshmem_quiet_kernel",
            "rocshmem_put",
            "ishmem_work_group",
            "triton_dist_allgather",
            "kernel_ring_reduce_tma",
            "all2all_dispatch",
            "all-reduce.17",
            "kuserbuffers_pushsend(int*)",
            "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop",
        ] {
            assert!(is_communication_kernel(name), "{name}");
        }
    }

    #[test]
    fn kernels_that_compute_are_not_taken_for_communication() {
        for name in [
            "",
            "<unknown>",
            "sgemm_128x64",
            "hipblas_gemm",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
            "void at::native::(anonymous namespace)::gather_kernel<float>",
            "void at::native::_scatter_gather_elementwise_kernel<128, 8>",
            "void vllm::moe::combine<half>",
            "void moe::dev::finalize::finalizeKernel<moe::dev::finalize::KernelParams>",
            "moe_dispatch",
            "void small_reduce_kernel<float>",
            "SmallReduceKernel",
            "overall_reduce",
            "void blockAllReduceSum<float>",
            "warp_all_reduce_softmax",
            "triton_poi_fused_add_all_gather_into_tensor_wait_tensor_3",
            "triton_red_fused_all_reduce_native_layer_norm_0",
            "void gemm_all_reduce<half>",
            "MatmulAllReduce",
            "void flux::kernel<nvshmem::Tag, ncclComm>",
            "void at::native::vectorized_elementwise_kernel<4, all_reduce_functor>(int, ncclDevComm)",
            "void deep_ep::layout::get_dispatch_layout<256, 1, 8>",
            "broadcast_in_dim_fusion",
            "void (anonymous namespace)::softmax_warp_forward<float>",
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::Half>::exists, void>::type vllm::norm",
            "Memcpy DtoD (Device -> Device)",
        ] {
            assert!(!is_communication_kernel(name), "{name}");
        }
    }

    #[test]
    fn actions_that_wait_for_other_ranks_are_known_and_devices_are_none() {
        for name in [
            "all_reduce_gradients",
            "All_Reduce",
            "AllReduce",
            "[Strategy]Ddp.barrier",
            "[Strategy]Ddp.reduce_scatter_grads",
            "allgather",
            "all_to_all_tokens",
            "broadcast_parameters",
            "sync_gradients",
            "synchronize_params",
            "SyncBatchNorm",
            "sync_batchnorm",
        ] {
            assert!(waits_for_other_ranks(name), "{name}");
        }
        for name in [
            "synchronize",
            "sync",
            "sync_device",
            "sync_model_to_device",
            "[Accelerator]Cuda.synchronize",
            "synchronize_cuda_gradients",
            "synchronous_copy",
            "allXreduce",
            "backward",
            "allocate",
            "",
        ] {
            assert!(!waits_for_other_ranks(name), "{name}");
        }
    }
}
