//! Names of CUDA driver and runtime calls, and the selection of reported calls.

use rustc_hash::FxHashMap;

use super::functions::Functions;
use super::names;
use super::records::Api;
use mlprof_core::{Action, ActionKind};

/// Properties of a CUDA function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) action: Action,
    /// `true` if the function allocates or releases memory.
    pub(super) is_of_memory: bool,
}

/// Known functions by API and CUPTI's callback id. The key is `true` for the driver API. `None`
/// marks functions that are not reported.
#[derive(Default)]
pub(super) struct Calls(FxHashMap<(bool, u32), Option<Call>>);

/// Frequent and fast calls that would only hide the others. Kineto omits similar calls.
const SILENT: [&str; 28] = [
    "cudaGetDevice",
    "cudaSetDevice",
    "cudaGetLastError",
    "cudaPeekAtLastError",
    "cudaDeviceGetAttribute",
    "cudaEventCreate",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaStreamGetCaptureInfo",
    "cudaStreamIsCapturing",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxPushCurrent",
    "cuCtxPopCurrent",
    "cuCtxGetDevice",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy",
    "cuEventQuery",
    "cuGetProcAddress",
    "cuStreamIsCapturing",
    // mlprof itself makes these calls for device regions.
    "cuEventElapsedTime",
    "cuPointerGetAttribute",
    "cuStreamGetCtx",
    "cuThreadExchangeStreamCaptureMode",
];

/// Removes the version suffix of a function name, such as `cudaLaunchKernel_v7000` or
/// `cuMemAlloc_v2`, because programs call these functions without it.
fn without_version(name: &str) -> &str {
    let plain = match name.rsplit_once("_v") {
        Some((plain, version))
            if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            plain
        }
        _ => name,
    };
    // These suffixes mark the variants for per-thread default streams.
    plain.strip_suffix("_ptsz").or_else(|| plain.strip_suffix("_ptds")).unwrap_or(plain)
}

fn is_of_memory(name: &str) -> bool {
    ["Malloc", "MemAlloc", "Free", "MemCreate", "MemRelease"].iter().any(|part| name.contains(part))
}

impl Calls {
    /// Returns the function of a call, or `None` if it is not reported. *Cost*: a hash lookup,
    /// except for the first call of each function.
    pub(super) fn get(&mut self, functions: &Functions, call: &Api) -> Option<Call> {
        let known = self.0.entry((call.is_driver, call.callback));
        *known.or_insert_with(|| {
            let name = functions.name_of_call(call.is_driver, call.callback);
            Self::named(&name.unwrap_or_else(|| names::api(call.is_driver, call.callback)))
        })
    }

    fn named(name: &str) -> Option<Call> {
        let plain = without_version(name);
        (!SILENT.contains(&plain)).then(|| Call {
            action: Action::of_kind(ActionKind::Launch, plain, None),
            is_of_memory: is_of_memory(plain),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_names_that_programs_write() {
        let name = |name: &str| Calls::named(name).map(|call| call.action.name().to_owned());
        assert_eq!(name("cudaLaunchKernel_v7000").as_deref(), Some("cudaLaunchKernel"));
        assert_eq!(name("cudaMemcpyAsync_ptsz_v7000").as_deref(), Some("cudaMemcpyAsync"));
        assert_eq!(name("cuMemcpyHtoDAsync_v2").as_deref(), Some("cuMemcpyHtoDAsync"));
        assert_eq!(name("cuLaunchKernelEx").as_deref(), Some("cuLaunchKernelEx"));
        assert_eq!(name("odd_v").as_deref(), Some("odd_v"));
        assert_eq!(name("cudaGetDevice_v3020"), None);
    }

    #[test]
    fn allocating_calls_are_known() {
        let is = |name: &str| Calls::named(name).is_some_and(|call| call.is_of_memory);
        assert!(is("cudaMalloc_v3020") && is("cuMemAllocAsync") && is("cuMemFree_v2"));
        assert!(is("cudaFreeAsync_v11020") && !is("cudaLaunchKernel_v7000") && !is("cuMemcpy"));
    }
}
