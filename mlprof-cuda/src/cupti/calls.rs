//! What calls of CUDA's driver and runtime are called, and which of them are worth telling of.

use rustc_hash::FxHashMap;

use super::functions::Functions;
use super::names;
use super::records::Api;
use mlprof_core::{Action, ActionKind};

/// What is known of one function of CUDA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) action: Action,
    /// Whether it allocates or releases memory.
    pub(super) is_of_memory: bool,
}

/// By CUPTI's number, of the driver's and the runtime's functions; `None` for one that is not told of.
#[derive(Default)]
pub(super) struct Calls(FxHashMap<(bool, u32), Option<Call>>);

/// Asked so often, and answered so fast, that they would only hide the rest; Kineto leaves the like out.
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
    // Asked by ourselves, for regions.
    "cuEventElapsedTime",
    "cuPointerGetAttribute",
    "cuStreamGetCtx",
    "cuThreadExchangeStreamCaptureMode",
];

/// `cudaLaunchKernel_v7000` and `cuMemAlloc_v2` are what their callers write without the end.
fn without_version(name: &str) -> &str {
    let plain = match name.rsplit_once("_v") {
        Some((plain, version))
            if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            plain
        }
        _ => name,
    };
    // With a default stream of each thread's own.
    plain.strip_suffix("_ptsz").or_else(|| plain.strip_suffix("_ptds")).unwrap_or(plain)
}

fn is_of_memory(name: &str) -> bool {
    ["Malloc", "MemAlloc", "Free", "MemCreate", "MemRelease"].iter().any(|part| name.contains(part))
}

impl Calls {
    /// The function of a call. *Cost*: a look-up, but for the first call of each function.
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
    fn what_allocates_is_known() {
        let is = |name: &str| Calls::named(name).is_some_and(|call| call.is_of_memory);
        assert!(is("cudaMalloc_v3020") && is("cuMemAllocAsync") && is("cuMemFree_v2"));
        assert!(is("cudaFreeAsync_v11020") && !is("cudaLaunchKernel_v7000") && !is("cuMemcpy"));
    }
}
