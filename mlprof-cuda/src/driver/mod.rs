//! Functions of the CUDA driver, looked up at run time.
//!
//! The crate does not link to CUDA, so it also builds and runs on machines without CUDA.

mod guards;

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;

pub(crate) use self::guards::{BesideCaptures, Entered};
use mlprof_core::driver_library;

/// Reason why the CUDA driver is unavailable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoDriver {
    /// The library is missing or cannot be loaded.
    #[error("{0}")]
    NotLoaded(&'static str),
    /// The library lacks a required function. It is an older driver, or another library with the
    /// same name.
    #[error("the CUDA driver is too old: it lacks the function {0}; update the driver")]
    Function(&'static str),
    /// The driver does not initialise, usually because there is no device.
    #[error("cannot initialise the CUDA driver: {0}")]
    Init(Failure),
}

/// Failed driver call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{function}: {}", name_of(*.code))]
pub(crate) struct Failure {
    /// Name of the driver function.
    pub(crate) function: &'static str,
    /// Error code of the driver.
    pub(crate) code: u32,
}

/// `CUDA_ERROR_NOT_READY`: the work has not completed.
const NOT_READY: u32 = 600;
/// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`: the stream implicitly takes part in a capture.
const CAPTURE_IMPLICIT: u32 = 906;
/// Capture mode in which calls that a capture on another thread would prohibit are allowed.
const CAPTURE_RELAXED: i32 = 2;

/// Opaque driver handle of a context, an event or a stream.
pub(crate) type Handle = *mut c_void;

/// Declares [`Driver`] and its loader, with one line per function that gives its symbol name.
macro_rules! functions {
    (
        required { $($name:ident: $symbol:literal ( $($type:ty),* )),* $(,)? }
        optional { $($other:ident: $other_symbol:literal ( $($other_type:ty),* )),* $(,)? }
    ) => {
        /// Function table of the driver. The functions follow the driver API documentation and
        /// return 0 or an error code.
        pub(crate) struct Driver {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> u32,)*
            $(pub(super) $other: Option<unsafe extern "C" fn($($other_type),*) -> u32>,)*
        }

        impl Driver {
            fn load() -> Result<Self, NoDriver> {
                let library = driver_library::library().map_err(NoDriver::NotLoaded)?;
                Ok(Self {
                    $($name: {
                        const NAME: &CStr = symbol(concat!($symbol, "\0"));
                        // SAFETY: the field's type matches the signature of this symbol in the
                        // driver API documentation.
                        unsafe { driver_library::function(library, NAME) }
                            .ok_or(NoDriver::Function($symbol))?
                    },)*
                    $($other: {
                        const NAME: &CStr = symbol(concat!($other_symbol, "\0"));
                        // SAFETY: the field's type matches the signature of this symbol in the
                        // driver API documentation.
                        unsafe { driver_library::function(library, NAME) }
                    },)*
                })
            }
        }
    };
}

const fn symbol(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

functions! {
    required {
        init: "cuInit"(u32),
        driver_version: "cuDriverGetVersion"(*mut i32),
        current_context: "cuCtxGetCurrent"(*mut Handle),
        push_context: "cuCtxPushCurrent_v2"(Handle),
        pop_context: "cuCtxPopCurrent_v2"(*mut Handle),
        context_device: "cuCtxGetDevice"(*mut i32),
        retain_primary: "cuDevicePrimaryCtxRetain"(*mut Handle, i32),
        create_event: "cuEventCreate"(*mut Handle, u32),
        record_event: "cuEventRecord"(Handle, Handle),
        query_event: "cuEventQuery"(Handle),
        synchronize_event: "cuEventSynchronize"(Handle),
        elapsed_time: "cuEventElapsedTime"(*mut f32, Handle, Handle),
        destroy_event: "cuEventDestroy_v2"(Handle),
        create_stream: "cuStreamCreate"(*mut Handle, u32),
        destroy_stream: "cuStreamDestroy_v2"(Handle),
        device: "cuDeviceGet"(*mut i32, i32),
        device_count: "cuDeviceGetCount"(*mut i32),
        device_attribute: "cuDeviceGetAttribute"(*mut i32, i32, i32),
        device_name: "cuDeviceGetName"(*mut c_char, i32, i32),
        device_memory: "cuDeviceTotalMem_v2"(*mut usize, i32),
    }
    optional {
        release_primary: "cuDevicePrimaryCtxRelease_v2"(i32),
        release_primary_before_11: "cuDevicePrimaryCtxRelease"(i32),
        synchronize_context: "cuCtxSynchronize"(),
        primary_state: "cuDevicePrimaryCtxGetState"(i32, *mut u32, *mut i32),
        stream_context: "cuStreamGetCtx"(Handle, *mut Handle),
        is_capturing: "cuStreamIsCapturing"(Handle, *mut i32),
        exchange_capture_mode: "cuThreadExchangeStreamCaptureMode"(*mut i32),
        elapsed_time_since_12_8: "cuEventElapsedTime_v2"(*mut f32, Handle, Handle),
    }
}

/// Capture state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Enqueued work is executed.
    No,
    /// Enqueued work becomes part of a graph, which may run later or never.
    Yes,
}

fn check(function: &'static str, code: u32) -> Result<(), Failure> {
    if code == 0 { Ok(()) } else { Err(Failure { function, code }) }
}

/// Returns the name of an error, such as `CUDA_ERROR_NO_DEVICE`, or its code if it has no name.
fn name_of(code: u32) -> String {
    // `Driver::get` is not used here, because it may be the call that failed.
    let library = driver_library::library().ok();
    type Name = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;
    let name = library.and_then(|library| {
        // SAFETY: the type `Name` matches the signature of `cuGetErrorName` in the driver API
        // documentation.
        let function = unsafe { driver_library::function::<Name>(library, c"cuGetErrorName") }?;
        let mut text = std::ptr::null();
        // SAFETY: the function writes one pointer to `text`, an initialised local. It accepts any
        // code, and it stores null or a static C string.
        let code = unsafe { function(code, &raw mut text) };
        // SAFETY: `text` is not null. The driver returned a C string with a terminating zero. It is
        // static data of the library, which is never unloaded.
        (code == 0 && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
    });
    match name {
        Some(name) => name.to_string_lossy().into_owned(),
        None => format!("CUDA error {code}"),
    }
}

impl Driver {
    /// Returns the initialised driver. The first call loads it, and later calls return the same
    /// result.
    ///
    /// *Cost*: one atomic load after the first call. The first call takes about 100 ms if the
    /// process has not used CUDA before.
    pub(crate) fn get() -> Result<&'static Self, &'static NoDriver> {
        static DRIVER: OnceLock<Result<Driver, NoDriver>> = OnceLock::new();
        let begin = || {
            let driver = Self::load()?;
            // SAFETY: `cuInit` takes no pointers, and any thread may call it any number of times. 0
            // is the only valid value of its flags.
            check("cuInit", unsafe { (driver.init)(0) }).map_err(NoDriver::Init)?;
            Ok(driver)
        };
        DRIVER.get_or_init(begin).as_ref()
    }

    /// Returns the driver's version, such as `13000` for CUDA 13.0.
    pub(crate) fn version(&self) -> Result<u32, Failure> {
        // SAFETY: `cuDriverGetVersion` writes one `i32` and has no precondition.
        unsafe { self.integer("cuDriverGetVersion", self.driver_version) }
    }

    /// Returns the number of devices.
    pub(crate) fn device_count(&self) -> Result<u32, Failure> {
        // SAFETY: `cuDeviceGetCount` writes one `i32`. `Driver::get` has called `cuInit`.
        unsafe { self.integer("cuDeviceGetCount", self.device_count) }
    }

    /// Returns the number that `function` writes.
    ///
    /// # Safety
    ///
    /// `function` must write one `i32` to its argument and have no other precondition.
    unsafe fn integer(
        &self,
        name: &'static str,
        function: unsafe extern "C" fn(*mut i32) -> u32,
    ) -> Result<u32, Failure> {
        let mut answer = 0;
        // SAFETY: the caller promises that the function only writes one `i32`, and `answer` is an
        // initialised local.
        check(name, unsafe { function(&raw mut answer) })?;
        Ok(u32::try_from(answer).unwrap_or(0))
    }

    /// Returns the current context of the calling thread, or null.
    pub(crate) fn current_context(&self) -> Result<Handle, Failure> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the function writes one pointer to `context`, an initialised local. It has no
        // further preconditions.
        check("cuCtxGetCurrent", unsafe { (self.current_context)(&raw mut context) })?;
        Ok(context)
    }

    /// Returns the context of a stream. For the default stream (null), or if the driver lacks the
    /// function, it returns the thread's current context.
    ///
    /// # Safety
    ///
    /// The stream must exist.
    pub(crate) unsafe fn stream_context(&self, stream: Handle) -> Result<Handle, Failure> {
        let Some(function) = self.stream_context.filter(|_| !stream.is_null()) else {
            return self.current_context();
        };
        let mut context = std::ptr::null_mut();
        // SAFETY: the caller guarantees that the stream exists. The function writes one pointer to
        // `context`, an initialised local.
        check("cuStreamGetCtx", unsafe { function(stream, &raw mut context) })?;
        Ok(context)
    }

    /// Makes `context` current on the calling thread until the guard is dropped.
    ///
    /// # Safety
    ///
    /// The context must exist until the guard is dropped.
    pub(crate) unsafe fn enter(&self, context: Handle) -> Result<Entered<'_>, Failure> {
        if self.current_context()? == context {
            return Ok(Entered { driver: self, is_pushed: false, of_thread: PhantomData });
        }
        // SAFETY: the caller guarantees that the context exists. The guard pops it again.
        check("cuCtxPushCurrent_v2", unsafe { (self.push_context)(context) })?;
        Ok(Entered { driver: self, is_pushed: true, of_thread: PhantomData })
    }

    /// Returns the device id of the thread's current context.
    pub(crate) fn context_device(&self) -> Result<u32, Failure> {
        // SAFETY: `cuCtxGetDevice` writes one `i32`. Without a current context it returns an error.
        unsafe { self.integer("cuCtxGetDevice", self.context_device) }
    }

    /// Keeps `context` alive if it is the primary context of its device, which all users of the
    /// CUDA runtime share. Contexts created explicitly remain the responsibility of their owners.
    pub(crate) fn keep_primary(&self, context: Handle, device: u32) {
        let Ok(device) = i32::try_from(device) else { return };
        let mut primary = std::ptr::null_mut();
        // SAFETY: the function writes one pointer to `primary`, an initialised local. The driver
        // rejects an invalid device.
        let code = unsafe { (self.retain_primary)(&raw mut primary, device) };
        if code == 0
            && primary != context
            && let Some(give_back) = self.release_primary.or(self.release_primary_before_11)
        {
            // SAFETY: the retain call above succeeded, so this call releases exactly that
            // reference.
            unsafe { give_back(device) };
        }
    }

    /// Creates an event with timing in the thread's current context.
    pub(crate) fn create_event(&self) -> Result<Handle, Failure> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the function writes one pointer to `event`, an initialised local. 0 selects the
        // default flags, which include timing.
        check("cuEventCreate", unsafe { (self.create_event)(&raw mut event, 0) })?;
        Ok(event)
    }

    /// Records `event` in `stream`, so that the device stores the time at which it reaches this
    /// point.
    ///
    /// # Safety
    ///
    /// Both must exist and belong to the thread's current context.
    pub(crate) unsafe fn record(&self, event: Handle, stream: Handle) -> Result<(), Failure> {
        // SAFETY: the caller guarantees that the event and the stream exist and belong to the
        // current context.
        check("cuEventRecord", unsafe { (self.record_event)(event, stream) })
    }

    /// Returns `true` if the device has reached the event. It does not wait.
    ///
    /// # Safety
    ///
    /// The event must exist.
    pub(crate) unsafe fn is_over(&self, event: Handle) -> Result<bool, Failure> {
        // SAFETY: the caller guarantees that the event exists.
        match unsafe { (self.query_event)(event) } {
            NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Waits until the device has reached the event.
    ///
    /// # Safety
    ///
    /// The event must exist.
    pub(crate) unsafe fn synchronize(&self, event: Handle) -> Result<(), Failure> {
        // SAFETY: the caller guarantees that the event exists.
        check("cuEventSynchronize", unsafe { (self.synchronize_event)(event) })
    }

    /// Returns the time from `start` to `end` in seconds. It is accurate to about half a
    /// microsecond, plus one ten-millionth of the time.
    ///
    /// # Safety
    ///
    /// The events must exist, belong to one context, and have been recorded.
    pub(crate) unsafe fn seconds_between(
        &self,
        start: Handle,
        end: Handle,
    ) -> Result<f64, Failure> {
        let mut milliseconds = 0.0;
        let function = self.elapsed_time_since_12_8.unwrap_or(self.elapsed_time);
        // SAFETY: the caller guarantees that both events exist, belong to one context and were
        // recorded. The function writes one `f32` to `milliseconds`, an initialised local.
        let code = unsafe { function(&raw mut milliseconds, start, end) };
        check("cuEventElapsedTime", code)?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    /// # Safety
    ///
    /// The event must exist, and it must not be used afterwards.
    pub(crate) unsafe fn destroy_event(&self, event: Handle) {
        // SAFETY: the caller guarantees that the event exists and is not used afterwards. A failure
        // is ignored, because the caller could not handle it.
        unsafe { (self.destroy_event)(event) };
    }

    /// Creates a stream in the thread's current context. It does not synchronise with the default
    /// stream.
    pub(crate) fn create_stream(&self) -> Result<Handle, Failure> {
        const WAITS_FOR_NO_OTHER: u32 = 1;
        let mut stream = std::ptr::null_mut();
        // SAFETY: the function writes one pointer to `stream`, an initialised local. 1 is
        // `CU_STREAM_NON_BLOCKING`, a valid flag.
        let code = unsafe { (self.create_stream)(&raw mut stream, WAITS_FOR_NO_OTHER) };
        check("cuStreamCreate", code)?;
        Ok(stream)
    }

    /// # Safety
    ///
    /// The stream must exist, and it must not be used afterwards.
    pub(crate) unsafe fn destroy_stream(&self, stream: Handle) {
        // SAFETY: the caller guarantees that the stream exists and is not used afterwards. A
        // failure is ignored, because the caller could not handle it.
        unsafe { (self.destroy_stream)(stream) };
    }

    /// Returns whether enqueued work of the stream is executed or captured.
    ///
    /// # Safety
    ///
    /// The stream must exist and belong to the thread's current context.
    pub(crate) unsafe fn capture(&self, stream: Handle) -> Result<Capture, Failure> {
        // Drivers without this function do not support captures.
        let Some(function) = self.is_capturing else { return Ok(Capture::No) };
        let mut status = 0;
        // SAFETY: the caller guarantees that the stream exists and belongs to the current context.
        // The function writes one `i32` to `status`, an initialised local.
        match unsafe { function(stream, &raw mut status) } {
            0 if status == 0 => Ok(Capture::No),
            0 | CAPTURE_IMPLICIT => Ok(Capture::Yes),
            code => Err(Failure { function: "cuStreamIsCapturing", code }),
        }
    }

    /// Protects captures of other threads until the guard is dropped. Event queries of this thread,
    /// which are unrelated to the captures, then do not invalidate them.
    pub(crate) fn beside_captures(&self) -> BesideCaptures<'_> {
        let mut mode = CAPTURE_RELAXED;
        // SAFETY: the function reads and writes one `i32`, and `mode` is an initialised local with
        // a valid mode. The previous mode is stored in it.
        let before = self.exchange_capture_mode.map(|exchange| unsafe { exchange(&raw mut mode) });
        BesideCaptures {
            driver: self,
            mode: (before == Some(0)).then_some(mode),
            of_thread: PhantomData,
        }
    }

    /// Returns an integer attribute of a device.
    pub(crate) fn attribute(&self, device: i32, attribute: i32) -> Result<u32, Failure> {
        let mut answer = 0;
        // SAFETY: the function writes one `i32` to `answer`, an initialised local. The driver
        // rejects unknown devices and attributes.
        let code = unsafe { (self.device_attribute)(&raw mut answer, attribute, device) };
        check("cuDeviceGetAttribute", code)?;
        Ok(u32::try_from(answer).unwrap_or(0))
    }

    /// Returns the driver's handle of the device with this id.
    pub(crate) fn device(&self, number: u32) -> Result<i32, Failure> {
        let mut device = 0;
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        // SAFETY: the function writes one `i32` to `device`, an initialised local. The driver
        // rejects an invalid id.
        check("cuDeviceGet", unsafe { (self.device)(&raw mut device, number) })?;
        Ok(device)
    }

    /// Returns the name of a device, such as `NVIDIA H100 80GB HBM3`.
    pub(crate) fn device_name(&self, device: i32) -> Result<String, Failure> {
        let mut text = [0_u8; 256];
        // SAFETY: the function writes at most 255 bytes to `text`, which has 256. The driver
        // rejects an invalid device.
        let code = unsafe { (self.device_name)(text.as_mut_ptr().cast(), 255, device) };
        check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    /// Returns the total memory of a device in bytes.
    pub(crate) fn device_memory(&self, device: i32) -> Result<u64, Failure> {
        let mut bytes = 0_usize;
        // SAFETY: the function writes one `usize` to `bytes`, an initialised local. The driver
        // rejects an invalid device.
        check("cuDeviceTotalMem_v2", unsafe { (self.device_memory)(&raw mut bytes, device) })?;
        Ok(bytes as u64)
    }
}
