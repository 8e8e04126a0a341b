//! A GPU and two kernels, without any framework.

use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

/// An empty kernel, and one that spins for a while.
const KERNELS: &str = "\
.visible .entry mlprof_empty()
{
    ret;
}
.visible .entry mlprof_spin()
{
    .reg .pred %again;
    .reg .b64 %begin, %now, %passed;
    mov.u64 %begin, %clock64;
AGAIN:
    mov.u64 %now, %clock64;
    sub.s64 %passed, %now, %begin;
    setp.lt.s64 %again, %passed, 60000;
    @%again bra AGAIN;
    ret;
}
";

/// Device architectures for which the kernels are compiled. The oldest one that the driver supports
/// is used.
const TARGETS: [&str; 3] = ["sm_50", "sm_75", "sm_90"];

/// Checks that a driver and a device exist. Returns the reason otherwise.
pub fn is_there() -> Result<(), String> {
    // The check is skipped with candle, which links the driver's library: without the library, the
    // program does not start.
    #[cfg(not(feature = "candle"))]
    // SAFETY: the function only tries to load the driver's library, whose initialisers are safe to
    // run.
    if !unsafe { sys::is_culib_present() } {
        return Err("the driver library (libcuda) is not installed".to_owned());
    }
    match CudaContext::device_count() {
        Ok(0) => Err("the driver finds no device".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(explain(error)),
    }
}

/// Returns the driver's error message.
pub fn explain(error: DriverError) -> String {
    format!("CUDA's driver: {error}")
}

/// A kernel of this program.
#[derive(Debug, Clone, Copy)]
pub enum Kernel {
    /// The empty kernel.
    Empty,
    /// A kernel that takes about 30 µs.
    Spin,
}

/// The first device with a separate stream.
pub struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    empty: sys::CUfunction,
    spin: sys::CUfunction,
}

impl Gpu {
    pub fn open() -> Result<Self, String> {
        let context = CudaContext::new(0).map_err(explain)?;
        let stream = context.new_stream().map_err(explain)?;
        let module = load()?;
        let function = |name: &str| {
            let name = CString::new(name).map_err(|error| error.to_string())?;
            // SAFETY: the module was loaded successfully and is never unloaded.
            unsafe { result::module::get_function(module, name) }.map_err(explain)
        };
        let (empty, spin) = (function("mlprof_empty")?, function("mlprof_spin")?);
        Ok(Self { empty, spin, context, stream })
    }

    /// Returns the stream on which kernels are launched.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Returns the device's name.
    pub fn name(&self) -> Result<String, String> {
        self.context.name().map_err(explain)
    }

    /// Returns the newest CUDA version that the driver supports, such as 12.9.
    pub fn cuda_version(&self) -> Result<String, String> {
        let mut version = 0;
        // SAFETY: `version` is a local variable that is valid for writes.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(explain)?;
        Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// Launches a kernel `count` times in sequence.
    pub fn launch(&self, kernel: Kernel, count: u64) -> Result<(), String> {
        let function = match kernel {
            Kernel::Empty => self.empty,
            Kernel::Spin => self.spin,
        };
        self.context.bind_to_thread().map_err(explain)?;
        for _ in 0..count {
            let (grid, block) = ((1, 1, 1), (32, 1, 1));
            // SAFETY: function and stream are valid and belong to the context that is bound to this
            // thread. The kernels take no parameters and access no memory.
            unsafe {
                let stream = self.stream.cu_stream();
                result::launch_kernel(function, grid, block, 0, stream, &mut [])
            }
            .map_err(explain)?;
        }
        Ok(())
    }

    /// Waits until all launched kernels have completed.
    pub fn wait(&self) -> Result<(), String> {
        self.stream.synchronize().map_err(explain)
    }
}

/// Loads the kernels for the first of the [`TARGETS`] that the driver accepts.
fn load() -> Result<sys::CUmodule, String> {
    let mut last = String::new();
    for target in TARGETS {
        let source = format!(".version 7.0\n.target {target}\n.address_size 64\n{KERNELS}");
        let source = if target == "sm_90" { source.replace("7.0", "7.8") } else { source };
        let source = CString::new(source).map_err(|error| error.to_string())?;
        // SAFETY: the image is a NUL-terminated PTX text that outlives the call.
        match unsafe { result::module::load_data(source.as_ptr().cast()) } {
            Ok(module) => return Ok(module),
            Err(error) => last = explain(error),
        }
    }
    Err(format!("cannot compile the kernels of this program: {last}"))
}
