//! Slice categories, named as in Kineto.

/// Category of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
#[non_exhaustive]
pub enum Category {
    /// Framework op.
    CpuOp,
    /// Action, module or step.
    UserAnnotation,
    /// Python function.
    PythonFunction,
    /// Call of a device's runtime library.
    CudaRuntime,
    /// Call of a device's driver.
    CudaDriver,
    /// Kernel on a device.
    Kernel,
    /// Copy by a device.
    GpuMemcpy,
    /// Memory fill by a device.
    GpuMemset,
    /// Wait of a stream.
    CudaSync,
    /// Action as executed on a stream.
    GpuUserAnnotation,
    /// Work of the profiler or the kernel compiler.
    Overhead,
    /// Any other slice.
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

    /// Returns the category with this name in a trace. Synonyms of other vendors are recognised.
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

    /// Returns the name used in traces.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(category, _)| *category == self).map_or("other", |(_, text)| text)
    }

    /// Returns `true` if slices of this category are on device streams.
    pub fn is_on_device(self) -> bool {
        self.is_device_work() || matches!(self, Self::CudaSync | Self::GpuUserAnnotation)
    }

    /// Returns `true` if slices of this category are on host threads.
    pub(crate) fn is_on_host(self) -> bool {
        self.is_runtime()
            || matches!(self, Self::CpuOp | Self::UserAnnotation | Self::PythonFunction)
    }

    /// Returns `true` if the device works during slices of this category.
    pub fn is_device_work(self) -> bool {
        matches!(self, Self::Kernel | Self::GpuMemcpy | Self::GpuMemset)
    }

    /// Returns `true` if the category is a call of a device's library.
    pub fn is_runtime(self) -> bool {
        matches!(self, Self::CudaRuntime | Self::CudaDriver)
    }
}
