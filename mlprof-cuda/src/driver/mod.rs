//! CUDA's driver: the functions that we call, found when the program runs.
//!
//! Nothing here is linked: the crate builds and runs where there is no CUDA.

mod guards;

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

pub(crate) use self::guards::{BesideCaptures, Entered};
use mlprof_core::driver_library;

/// Why CUDA's driver cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoDriver {
    /// There is no such library, or it cannot be loaded.
    #[error("{0}")]
    NotLoaded(&'static str),
    /// A driver that is much older than ours has to be, or something else of its name.
    #[error("CUDA's driver is too old: it has no function {0}")]
    Function(&'static str),
    /// It is there and does not begin its work: mostly since there is no device.
    #[error("CUDA's driver does not start: {0}")]
    Init(Failure),
}

/// A call that the driver refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{function}: {}", name_of(*.code))]
pub(crate) struct Failure {
    /// The function's name.
    pub(crate) function: &'static str,
    /// The driver's number of the error.
    pub(crate) code: u32,
}

/// What was asked for is still under way.
const NOT_READY: u32 = 600;
/// A capture under way, seen from a stream that takes part in it without being asked.
const CAPTURE_IMPLICIT: u32 = 906;
/// Calls that a capture of another stream would forbid are allowed.
const CAPTURE_RELAXED: i32 = 2;

/// A context, an event, a stream: pointers that only the driver looks behind.
pub(crate) type Handle = *mut c_void;

/// Declares [`Driver`] and how it is filled: one line per function, with the name by which it is
/// looked up.
macro_rules! functions {
    (
        required { $($name:ident: $symbol:literal ( $($type:ty),* )),* $(,)? }
        optional { $($other:ident: $other_symbol:literal ( $($other_type:ty),* )),* $(,)? }
    ) => {
        /// The functions of the driver, as its documentation describes them. All return 0 or the
        /// number of an error.
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
                        // SAFETY: the function of this name has this type.
                        unsafe { driver_library::function(library, NAME) }
                            .ok_or(NoDriver::Function($symbol))?
                    },)*
                    $($other: {
                        const NAME: &CStr = symbol(concat!($other_symbol, "\0"));
                        // SAFETY: as above.
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

/// What a stream is doing, as far as recording an event on it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Work that is handed to it is run.
    No,
    /// Work that is handed to it becomes part of a graph, to be run later, or never.
    Yes,
}

fn check(function: &'static str, code: u32) -> Result<(), Failure> {
    if code == 0 { Ok(()) } else { Err(Failure { function, code }) }
}

/// The name of an error, such as `CUDA_ERROR_NO_DEVICE`; its number where there is no name.
fn name_of(code: u32) -> String {
    // Not `Driver::get`, which may be what has just failed.
    let library = driver_library::library().ok();
    type Name = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;
    let name = library.and_then(|library| {
        // SAFETY: the function of this name has this type.
        let function = unsafe { driver_library::function::<Name>(library, c"cuGetErrorName") }?;
        let mut text = std::ptr::null();
        // SAFETY: room for the answer, which is a text of the driver's own, or null.
        let code = unsafe { function(code, &raw mut text) };
        // SAFETY: as above; the text lives as long as the library, which is never closed.
        (code == 0 && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
    });
    match name {
        Some(name) => name.to_string_lossy().into_owned(),
        None => format!("CUDA's error {code}"),
    }
}

impl Driver {
    /// The driver, begun. Tried once per process: later answers are the same.
    ///
    /// *Cost*: one atomic load after the first call, which loads the library and begins it (some
    /// 100 ms where nothing else in the process has used CUDA before).
    pub(crate) fn get() -> Result<&'static Self, &'static NoDriver> {
        static DRIVER: OnceLock<Result<Driver, NoDriver>> = OnceLock::new();
        let begin = || {
            let driver = Self::load()?;
            // SAFETY: it may be called at any time by any thread, any number of times.
            check("cuInit", unsafe { (driver.init)(0) }).map_err(NoDriver::Init)?;
            Ok(driver)
        };
        DRIVER.get_or_init(begin).as_ref()
    }

    /// The driver's version, as `13000` for CUDA 13.0.
    pub(crate) fn version(&self) -> Result<u32, Failure> {
        self.integer("cuDriverGetVersion", self.driver_version)
    }

    /// How many devices there are.
    pub(crate) fn device_count(&self) -> Result<u32, Failure> {
        self.integer("cuDeviceGetCount", self.device_count)
    }

    fn integer(
        &self,
        name: &'static str,
        function: unsafe extern "C" fn(*mut i32) -> u32,
    ) -> Result<u32, Failure> {
        let mut answer = 0;
        // SAFETY: room for the answer.
        check(name, unsafe { function(&raw mut answer) })?;
        Ok(u32::try_from(answer).unwrap_or(0))
    }

    /// The context that the calling thread works in; null for none.
    pub(crate) fn current_context(&self) -> Result<Handle, Failure> {
        let mut context = std::ptr::null_mut();
        // SAFETY: room for the answer.
        check("cuCtxGetCurrent", unsafe { (self.current_context)(&raw mut context) })?;
        Ok(context)
    }

    /// The context of a stream. For the default stream (null), or with a driver that cannot say, the
    /// one that the thread works in.
    ///
    /// # Safety
    ///
    /// The stream exists.
    pub(crate) unsafe fn stream_context(&self, stream: Handle) -> Result<Handle, Failure> {
        let Some(function) = self.stream_context.filter(|_| !stream.is_null()) else {
            return self.current_context();
        };
        let mut context = std::ptr::null_mut();
        // SAFETY: the stream exists, as the caller says; room for the answer.
        check("cuStreamGetCtx", unsafe { function(stream, &raw mut context) })?;
        Ok(context)
    }

    /// Has the calling thread work in `context` until the guard is dropped.
    ///
    /// # Safety
    ///
    /// The context exists as long as the guard.
    pub(crate) unsafe fn enter(&self, context: Handle) -> Result<Entered<'_>, Failure> {
        if self.current_context()? == context {
            return Ok(Entered { driver: self, is_pushed: false });
        }
        // SAFETY: the context exists, as the caller says.
        check("cuCtxPushCurrent_v2", unsafe { (self.push_context)(context) })?;
        Ok(Entered { driver: self, is_pushed: true })
    }

    /// The number of the device of the context that the thread works in.
    pub(crate) fn context_device(&self) -> Result<u32, Failure> {
        self.integer("cuCtxGetDevice", self.context_device)
    }

    /// Keeps `context` from going away if it is its device's primary one, which every library shares
    /// that uses CUDA's runtime. Contexts that somebody has made by hand are up to them.
    pub(crate) fn keep_primary(&self, context: Handle, device: u32) {
        let Ok(device) = i32::try_from(device) else { return };
        let mut primary = std::ptr::null_mut();
        // SAFETY: room for the answer.
        let code = unsafe { (self.retain_primary)(&raw mut primary, device) };
        if code == 0
            && primary != context
            && let Some(give_back) = self.release_primary.or(self.release_primary_before_11)
        {
            // SAFETY: gives back what was just taken.
            unsafe { give_back(device) };
        }
    }

    /// An event that takes times, in the context that the thread works in.
    pub(crate) fn create_event(&self) -> Result<Handle, Failure> {
        let mut event = std::ptr::null_mut();
        // SAFETY: room for the answer.
        check("cuEventCreate", unsafe { (self.create_event)(&raw mut event, 0) })?;
        Ok(event)
    }

    /// Has `stream` note the time in `event` when it comes to this point.
    ///
    /// # Safety
    ///
    /// Both exist, and belong to the context that the thread works in.
    pub(crate) unsafe fn record(&self, event: Handle, stream: Handle) -> Result<(), Failure> {
        // SAFETY: as the caller says.
        check("cuEventRecord", unsafe { (self.record_event)(event, stream) })
    }

    /// Whether the stream has come to the event. Does not wait.
    ///
    /// # Safety
    ///
    /// The event exists.
    pub(crate) unsafe fn is_over(&self, event: Handle) -> Result<bool, Failure> {
        // SAFETY: as the caller says.
        match unsafe { (self.query_event)(event) } {
            NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Waits for the event.
    ///
    /// # Safety
    ///
    /// The event exists.
    pub(crate) unsafe fn synchronize(&self, event: Handle) -> Result<(), Failure> {
        // SAFETY: as the caller says.
        check("cuEventSynchronize", unsafe { (self.synchronize_event)(event) })
    }

    /// From `start` to `end` in seconds, right to about half a microsecond, and to the ten-millionth
    /// part of itself.
    ///
    /// # Safety
    ///
    /// The events exist, belong to one context, and were recorded.
    pub(crate) unsafe fn seconds_between(
        &self,
        start: Handle,
        end: Handle,
    ) -> Result<f64, Failure> {
        let mut milliseconds = 0.0;
        let function = self.elapsed_time_since_12_8.unwrap_or(self.elapsed_time);
        // SAFETY: as the caller says; room for the answer.
        let code = unsafe { function(&raw mut milliseconds, start, end) };
        check("cuEventElapsedTime", code)?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    /// # Safety
    ///
    /// The event exists, and nobody uses it from here on.
    pub(crate) unsafe fn destroy_event(&self, event: Handle) {
        // SAFETY: as the caller says. There is nobody to tell of a failure.
        unsafe { (self.destroy_event)(event) };
    }

    /// A stream that waits for no other one, in the context that the thread works in.
    pub(crate) fn create_stream(&self) -> Result<Handle, Failure> {
        const WAITS_FOR_NO_OTHER: u32 = 1;
        let mut stream = std::ptr::null_mut();
        // SAFETY: room for the answer.
        let code = unsafe { (self.create_stream)(&raw mut stream, WAITS_FOR_NO_OTHER) };
        check("cuStreamCreate", code)?;
        Ok(stream)
    }

    /// # Safety
    ///
    /// The stream exists, and nobody uses it from here on.
    pub(crate) unsafe fn destroy_stream(&self, stream: Handle) {
        // SAFETY: as the caller says. There is nobody to tell of a failure.
        unsafe { (self.destroy_stream)(stream) };
    }

    /// Whether work that is handed to the stream is run, or captured.
    ///
    /// # Safety
    ///
    /// The stream exists, and belongs to the context that the thread works in.
    pub(crate) unsafe fn capture(&self, stream: Handle) -> Result<Capture, Failure> {
        // Drivers without the function know no captures.
        let Some(function) = self.is_capturing else { return Ok(Capture::No) };
        let mut status = 0;
        // SAFETY: as the caller says; room for the answer.
        match unsafe { function(stream, &raw mut status) } {
            0 if status == 0 => Ok(Capture::No),
            0 | CAPTURE_IMPLICIT => Ok(Capture::Yes),
            code => Err(Failure { function: "cuStreamIsCapturing", code }),
        }
    }

    /// Until the guard is dropped a capture that some thread has under way is not disturbed by what
    /// this one asks of events that have nothing to do with it.
    pub(crate) fn beside_captures(&self) -> BesideCaptures<'_> {
        let mut mode = CAPTURE_RELAXED;
        // SAFETY: room for the mode, into which the one before is written.
        let before = self.exchange_capture_mode.map(|exchange| unsafe { exchange(&raw mut mode) });
        BesideCaptures { driver: self, mode: (before == Some(0)).then_some(mode) }
    }

    /// A number that describes a device.
    pub(crate) fn attribute(&self, device: i32, attribute: i32) -> Result<u32, Failure> {
        let mut answer = 0;
        // SAFETY: room for the answer; the driver refuses a device that it does not have.
        let code = unsafe { (self.device_attribute)(&raw mut answer, attribute, device) };
        check("cuDeviceGetAttribute", code)?;
        Ok(u32::try_from(answer).unwrap_or(0))
    }

    /// The driver's handle of the device of this number.
    pub(crate) fn device(&self, number: u32) -> Result<i32, Failure> {
        let mut device = 0;
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        // SAFETY: room for the answer.
        check("cuDeviceGet", unsafe { (self.device)(&raw mut device, number) })?;
        Ok(device)
    }

    /// What a device is called, as `NVIDIA H100 80GB HBM3`.
    pub(crate) fn device_name(&self, device: i32) -> Result<String, Failure> {
        let mut text = [0_u8; 256];
        // SAFETY: room for so many characters.
        let code = unsafe { (self.device_name)(text.as_mut_ptr().cast(), 255, device) };
        check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    /// All memory of a device, in bytes.
    pub(crate) fn device_memory(&self, device: i32) -> Result<u64, Failure> {
        let mut bytes = 0_usize;
        // SAFETY: room for the answer.
        check("cuDeviceTotalMem_v2", unsafe { (self.device_memory)(&raw mut bytes, device) })?;
        Ok(bytes as u64)
    }
}
