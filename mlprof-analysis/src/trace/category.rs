//! Kinds of slices, in Kineto's words.

/// What kind of thing a slice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
#[non_exhaustive]
pub enum Category {
    /// An op of a framework.
    CpuOp,
    /// An action, a module, a step.
    UserAnnotation,
    /// A Python function.
    PythonFunction,
    /// A call of a device's runtime library.
    CudaRuntime,
    /// A call of a device's driver.
    CudaDriver,
    /// A kernel on a device.
    Kernel,
    /// A copy by a device.
    GpuMemcpy,
    /// A fill by a device.
    GpuMemset,
    /// A stream that waits.
    CudaSync,
    /// An action as a stream saw it.
    GpuUserAnnotation,
    /// Work of the profiler or the compiler of kernels.
    Overhead,
    /// Anything else.
    Other,
}

impl Category {
    const ALL: [(Self, &str); 12] = [
        (Self::CpuOp, "cpu_op"),
        (Self::UserAnnotation, "user_annotation"),
        (Self::PythonFunction, "python_function"),
        (Self::CudaRuntime, "cuda_runtime"),
        (Self::CudaDriver, "cuda_driver"),
        (Self::Kernel, "kernel"),
        (Self::GpuMemcpy, "gpu_memcpy"),
        (Self::GpuMemset, "gpu_memset"),
        (Self::CudaSync, "cuda_sync"),
        (Self::GpuUserAnnotation, "gpu_user_annotation"),
        (Self::Overhead, "overhead"),
        (Self::Other, "other"),
    ];

    /// The one that a trace calls so. Other vendors' words mean the same.
    pub fn of(text: &str) -> Self {
        let same = match text {
            "Operator" | "operator" => "cpu_op",
            "Kernel" => "kernel",
            "Memcpy" => "gpu_memcpy",
            "Memset" => "gpu_memset",
            "Runtime" | "runtime" | "hip_runtime" | "privateuse1_runtime" | "xpu_runtime" => {
                "cuda_runtime"
            }
            "privateuse1_driver" | "xpu_driver" => "cuda_driver",
            text => text,
        };
        let found = Self::ALL.iter().find(|(_, known)| *known == same);
        found.map_or(Self::Other, |(category, _)| *category)
    }

    /// As traces write it.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(category, _)| *category == self).map_or("other", |(_, text)| text)
    }

    /// Whether it stands on a stream of a device.
    pub fn is_on_device(self) -> bool {
        self.is_device_work() || matches!(self, Self::CudaSync | Self::GpuUserAnnotation)
    }

    /// Whether it stands on a thread.
    pub(crate) fn is_on_host(self) -> bool {
        self.is_runtime()
            || matches!(self, Self::CpuOp | Self::UserAnnotation | Self::PythonFunction)
    }

    /// Whether a device works meanwhile.
    pub fn is_device_work(self) -> bool {
        matches!(self, Self::Kernel | Self::GpuMemcpy | Self::GpuMemset)
    }

    /// Whether it is a call of a device's library.
    pub fn is_runtime(self) -> bool {
        matches!(self, Self::CudaRuntime | Self::CudaDriver)
    }
}
