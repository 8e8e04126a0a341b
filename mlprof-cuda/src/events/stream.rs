//! A stream of CUDA's, whoever has made it.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::driver::{Driver, Failure, Handle};

/// CUDA's name for the default stream of the calling thread.
const PER_THREAD: usize = 2;

/// A stream of CUDA's: a queue of a device's work, on which a region can be timed.
///
/// | from | how |
/// |---|---|
/// | candle | `(&device.cuda_stream()).into()`, with the stream bound to a name first: it has to live as long as the region |
/// | cudarc | `(&stream).into()`, for a `CudaStream` or an `Arc` of one |
/// | tch, and whatever else uses the default stream | [`Stream::default_stream`] |
/// | anything else | [`Stream::from_raw`] |
///
/// torch works on the legacy default stream of its device's primary context, which is the thread's
/// own from torch's first use of CUDA on. So with tch move something to the device first (a model,
/// say), and open the region on the thread that calls torch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream<'stream> {
    pub(super) handle: Handle,
    /// Null: to be asked for.
    context: Handle,
    lives: PhantomData<&'stream ()>,
}

// SAFETY: what the pointers lead to belongs to the driver, which any thread may call.
unsafe impl Send for Stream<'_> {}
// SAFETY: as above.
unsafe impl Sync for Stream<'_> {}

impl Stream<'static> {
    /// The default stream of the context that the thread works in when the region is opened.
    pub const fn default_stream() -> Self {
        Self { handle: std::ptr::null_mut(), context: std::ptr::null_mut(), lives: PhantomData }
    }

    /// The stream of each thread by itself (`CU_STREAM_PER_THREAD`), on which candle works, in the context that
    /// the thread works in when the region is opened.
    pub const fn per_thread() -> Self {
        let handle = std::ptr::without_provenance_mut(PER_THREAD);
        Self { handle, context: std::ptr::null_mut(), lives: PhantomData }
    }

    /// The stream of this handle (a `CUstream`, or a `cudaStream_t`, which is the same); null is the
    /// [default one](Self::default_stream).
    ///
    /// # Safety
    ///
    /// The stream exists as long as regions are opened on it, and until the last one's guard has been
    /// dropped. Its context exists until the process ends, or is its device's primary one: then
    /// profiling keeps it.
    pub const unsafe fn from_raw(stream: *mut c_void) -> Self {
        Self { handle: stream, context: std::ptr::null_mut(), lives: PhantomData }
    }
}

impl<'stream> From<&'stream CudaStream> for Stream<'stream> {
    fn from(stream: &'stream CudaStream) -> Self {
        Self {
            handle: stream.cu_stream().cast(),
            context: stream.context().cu_ctx().cast(),
            lives: PhantomData,
        }
    }
}

impl<'stream> From<&'stream Arc<CudaStream>> for Stream<'stream> {
    fn from(stream: &'stream Arc<CudaStream>) -> Self {
        Self::from(&**stream)
    }
}

impl<'stream> From<&Stream<'stream>> for Stream<'stream> {
    fn from(stream: &Stream<'stream>) -> Self {
        *stream
    }
}

impl Stream<'_> {
    /// Its context; null if there is none yet.
    pub(super) fn context(&self, driver: &Driver) -> Result<Handle, Failure> {
        if !self.context.is_null() {
            return Ok(self.context);
        }
        // SAFETY: the stream exists, since this value does.
        unsafe { driver.stream_context(self.handle) }
    }
}
