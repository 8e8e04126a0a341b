//! CUDA streams created by any library.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::driver::{Driver, Failure, Handle};

/// Value of CUDA's handle `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

/// CUDA stream, which is a queue of device work on which regions can be timed.
///
/// | library | conversion |
/// |---|---|
/// | candle | `(&device.cuda_stream()).into()`, with the stream in a variable, because it must live as long as the region |
/// | cudarc | `(&stream).into()`, for a `CudaStream` or an `Arc` of one |
/// | tch and other users of the default stream | [`Stream::default_stream`] |
/// | other libraries | [`Stream::from_raw`] |
///
/// PyTorch works on the legacy default stream of the device's primary context. This context becomes
/// current on a thread when the thread first uses CUDA through PyTorch. With tch, first move some
/// data to the device (a model, for example), and open the region on the thread that calls PyTorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream<'stream> {
    pub(super) handle: Handle,
    /// Context of the stream. If null, it is determined when the region is opened.
    context: Handle,
    lives: PhantomData<&'stream ()>,
}

// SAFETY: the fields are opaque driver handles that only the driver dereferences. The driver
// functions may be called from any thread.
unsafe impl Send for Stream<'_> {}
// SAFETY: a shared `Stream` is never modified. The driver functions may be called from several
// threads at the same time.
unsafe impl Sync for Stream<'_> {}

impl Stream<'static> {
    /// Returns the default stream of the context that is current when the region is opened.
    pub const fn default_stream() -> Self {
        Self { handle: std::ptr::null_mut(), context: std::ptr::null_mut(), lives: PhantomData }
    }

    /// Returns the per-thread default stream (`CU_STREAM_PER_THREAD`), on which candle works. Its
    /// context is the one that is current when the region is opened.
    pub const fn per_thread() -> Self {
        let handle = std::ptr::without_provenance_mut(PER_THREAD);
        Self { handle, context: std::ptr::null_mut(), lives: PhantomData }
    }

    /// Creates a stream from its handle: a `CUstream`, or the equivalent `cudaStream_t`. Null is
    /// the [default stream](Self::default_stream).
    ///
    /// # Safety
    ///
    /// The stream must exist as long as regions are opened on it, and until the guard of the last
    /// one is dropped. Its context must be the primary context of its device, which profiling keeps
    /// alive, or exist until the process ends.
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
    /// Returns the context of the stream, or null if there is none yet.
    pub(super) fn context(&self, driver: &Driver) -> Result<Handle, Failure> {
        if !self.context.is_null() {
            return Ok(self.context);
        }
        // SAFETY: the stream exists, because this value does: the caller of `from_raw` guarantees
        // it, and default streams always exist.
        unsafe { driver.stream_context(self.handle) }
    }
}
