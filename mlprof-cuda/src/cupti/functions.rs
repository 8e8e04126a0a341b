//! Function table of libcupti, looked up at run time.
//!
//! `cudarc::cupti` is not used for several reasons:
//!
//! - It searches for one version of the library, chosen at compile time, and only by the loader's
//!   names.
//! - It panics if the library is missing.
//! - It cannot be loaded at run time together with candle, which links CUDA.
//!
//! The types follow NVIDIA's `cupti_activity.h` and `cupti_callbacks.h`, versions 12.9 to 13.5.

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

use super::unavailable::Unavailable;
use crate::locate_cupti::{self, Surroundings};

/// Result code of CUPTI functions, which is 0 on success.
pub(super) type Code = u32;

/// Result codes that are handled individually.
pub(super) mod code {
    pub(in super::super) const SUCCESS: u32 = 0;
    pub(in super::super) const MAX_LIMIT_REACHED: u32 = 12;
    pub(in super::super) const MULTIPLE_SUBSCRIBERS: u32 = 39;
}

/// Callback that requests a buffer. The arguments are locations for its address, its size, and the
/// maximum number of records (0 for no limit).
pub(super) type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Callback that returns a buffer. The arguments are a context and a stream (both obsolete), the
/// address, the size, and the number of bytes filled.
pub(super) type BufferCompleted = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// Callback that returns the current time in nanoseconds.
pub(super) type Timestamp = extern "C" fn() -> u64;
/// Callback of a subscriber. CUPTI never calls it, because no callback domain is enabled.
pub(super) type Callback = extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// C layout of `CUpti_SubscriberParams`.
#[repr(C)]
pub(super) struct SubscriberParameters {
    size: usize,
    name: *const c_char,
    other_name: *mut c_char,
    other_size: usize,
    allows_others: u8,
    padding: [u8; 7],
}

macro_rules! functions {
    (required { $($(#[$doc:meta])* $field:ident = $symbol:literal: fn($($argument:ty),*);)* }
     optional { $($(#[$optional_doc:meta])* $optional:ident = $optional_symbol:literal: fn($($optional_argument:ty),*);)* }) => {
        /// Function table of the loaded library.
        pub(crate) struct Functions {
            $($(#[$doc])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> Code,)*
            $($(#[$optional_doc])* pub(super) $optional: Option<unsafe extern "C" fn($($optional_argument),*) -> Code>,)*
            /// Path of the library.
            pub(super) path: PathBuf,
        }

        impl Functions {
            fn of(library: &Library, path: PathBuf) -> Result<Self, libloading::Error> {
                // SAFETY: each field's type matches the signature of its symbol in CUPTI's headers.
                // The copied function pointers stay valid, because `open` never unloads the
                // library.
                unsafe {
                    Ok(Self {
                        $($field: *library.get($symbol)?,)*
                        $($optional: library.get($optional_symbol).ok().map(|function| *function),)*
                        path,
                    })
                }
            }
        }
    };
}

functions! {
    required {
        /// Returns the name of a result code.
        result_string = b"cuptiGetResultString\0": fn(Code, *mut *const c_char);
        /// Subscribes to CUPTI. A process has one subscriber at a time.
        subscribe = b"cuptiSubscribe\0": fn(*mut *mut c_void, Callback, *mut c_void);
        /// Ends the subscription.
        unsubscribe = b"cuptiUnsubscribe\0": fn(*mut c_void);
        /// Registers the callbacks that provide buffers.
        register_callbacks = b"cuptiActivityRegisterCallbacks\0": fn(BufferRequested, BufferCompleted);
        /// Enables records of a kind.
        enable = b"cuptiActivityEnable\0": fn(u32);
        /// Disables records of a kind.
        disable = b"cuptiActivityDisable\0": fn(u32);
        /// Returns completed buffers (0) or all buffers (1).
        flush_all = b"cuptiActivityFlushAll\0": fn(u32);
        /// Returns the record after the given one. Null requests the first record.
        next_record = b"cuptiActivityGetNextRecord\0": fn(*mut u8, usize, *mut *mut u8);
        /// Returns the number of records dropped since the last call.
        dropped_records = b"cuptiActivityGetNumDroppedRecords\0": fn(*mut c_void, u32, *mut usize);
        /// Assigns an external correlation id to the calling thread's subsequent calls.
        push_correlation = b"cuptiActivityPushExternalCorrelationId\0": fn(u32, u64);
        /// Restores the thread's previous external correlation id.
        pop_correlation = b"cuptiActivityPopExternalCorrelationId\0": fn(u32, *mut u64);
        /// Returns the current time of the records' clock.
        timestamp = b"cuptiGetTimestamp\0": fn(*mut u64);
        /// Returns the name of a CUDA function by domain (1 for the driver API, 2 for the runtime
        /// API) and callback id.
        callback_name = b"cuptiGetCallbackName\0": fn(u32, u32, *mut *const c_char);
    }
    optional {
        /// Subscribes to CUPTI, or returns the name of the current subscriber.
        subscribe_named = b"cuptiSubscribe_v2\0": fn(*mut *mut c_void, Callback, *mut c_void, *mut SubscriberParameters);
        /// Makes records use the clock of a callback.
        register_timestamp = b"cuptiActivityRegisterTimestampCallback\0": fn(Timestamp);
        /// Sets the kind of thread ids in records. 1 selects operating system ids.
        set_thread_numbers = b"cuptiSetThreadIdType\0": fn(u32);
        /// Returns the id of a context.
        context_number = b"cuptiGetContextId\0": fn(*mut c_void, *mut u32);
        /// Returns the id of a stream. The third argument is 1 if the default stream is per thread.
        stream_number = b"cuptiGetStreamIdEx\0": fn(*mut c_void, *mut c_void, u8, *mut u32);
        /// Removes CUPTI from the process.
        finalize = b"cuptiFinalize\0": fn();
    }
}

/// Failed CUPTI call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) function: &'static str,
    pub(super) code: Code,
}

/// Converts a result code to a `Result`.
pub(super) fn check(function: &'static str, code: Code) -> Result<(), Failure> {
    if code == code::SUCCESS { Ok(()) } else { Err(Failure { function, code }) }
}

extern "C" fn no_callback(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

impl Functions {
    /// Finds and loads libcupti. `driver` is the major CUDA version that the driver supports.
    pub(super) fn load(driver: Option<u32>) -> Result<Self, Unavailable> {
        let surroundings = Surroundings::of_process(driver);
        if let Some(path) = locate_cupti::loaded() {
            let opened = Self::open(&path);
            return opened.map_err(|error| Unavailable::Library { path, error: error.to_string() });
        }
        let asked_for = surroundings.asked_for();
        let is_asked_for = asked_for.is_some();
        let candidates = asked_for.unwrap_or_else(|| surroundings.candidates());
        let mut first_error = None;
        for path in &candidates {
            match Self::open(path) {
                Ok(functions) => return Ok(functions),
                // A name that the loader does not find is not worth an error message.
                Err(error) if is_asked_for || path.is_absolute() => {
                    first_error.get_or_insert_with(|| (path.clone(), error.to_string()));
                }
                Err(_) => {}
            }
        }
        Err(match first_error {
            Some((path, error)) => Unavailable::Library { path, error },
            None if !cfg!(target_os = "linux") => Unavailable::Platform,
            None => Unavailable::NotFound,
        })
    }

    fn open(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: loading runs the initialisers of libcupti, which have no preconditions.
        let library = unsafe { Library::new(path) }?;
        let functions = Self::of(&library, path.to_owned());
        // The library is never unloaded, because its functions and its own threads run until the
        // process ends.
        std::mem::forget(library);
        functions
    }

    /// Subscribes to CUPTI. Fails if there already is a subscriber.
    pub(super) fn claim(&self) -> Result<*mut c_void, Unavailable> {
        let mut subscriber = std::ptr::null_mut();
        // SAFETY: the function writes one pointer to `subscriber`, an initialised local. The
        // callback is an `extern "C"` function that exists until the process ends. It ignores its
        // user data, which is null.
        let code = unsafe { (self.subscribe)(&mut subscriber, no_callback, std::ptr::null_mut()) };
        match check("cuptiSubscribe", code) {
            Ok(()) => Ok(subscriber),
            Err(failure) if failure.code == code::MULTIPLE_SUBSCRIBERS => {
                Err(Unavailable::Claimed { name: self.other_subscriber() })
            }
            Err(failure) => Err(self.explain(failure)),
        }
    }

    /// Returns the name of CUPTI's current subscriber, if it has one.
    fn other_subscriber(&self) -> Option<String> {
        let subscribe = self.subscribe_named?;
        let mut name = [0_u8; 128];
        let mut parameters = SubscriberParameters {
            size: size_of::<SubscriberParameters>(),
            name: c"mlprof".as_ptr(),
            other_name: name.as_mut_ptr().cast(),
            other_size: name.len() - 1,
            allows_others: 0,
            padding: [0; 7],
        };
        let mut subscriber = std::ptr::null_mut();
        let nothing = std::ptr::null_mut();
        // SAFETY: the function writes one pointer to `subscriber` and fills `parameters`, both
        // initialised locals. `size` is the size of the structure. The own name is a static C
        // string. The other name has `other_size` bytes available.
        let code = unsafe { subscribe(&mut subscriber, no_callback, nothing, &mut parameters) };
        if code == code::SUCCESS {
            // The other subscriber has left in the meantime, and the next attempt will succeed.
            // SAFETY: the call above returned this subscriber, and it is unsubscribed only here.
            unsafe { (self.unsubscribe)(subscriber) };
            return None;
        }
        let name = CStr::from_bytes_until_nul(&name).ok()?.to_string_lossy().into_owned();
        (!name.is_empty()).then_some(name)
    }

    /// Returns the name of a CUDA function.
    pub(super) fn name_of_call(&self, is_driver: bool, number: u32) -> Option<String> {
        let mut name = std::ptr::null();
        // SAFETY: the function writes one pointer to `name`, an initialised local. It rejects
        // unknown ids.
        let code =
            unsafe { (self.callback_name)(if is_driver { 1 } else { 2 }, number, &mut name) };
        if code != code::SUCCESS || name.is_null() {
            return None;
        }
        // SAFETY: `name` is not null. CUPTI returns a C string that is static data of the library,
        // which is never unloaded.
        let name = unsafe { CStr::from_ptr(name) };
        Some(name.to_string_lossy().into_owned())
    }

    /// Returns the name of a result code.
    pub(super) fn name_of_code(&self, code: Code) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the function writes one pointer to `name`, an initialised local. It rejects
        // unknown codes.
        let known = unsafe { (self.result_string)(code, &mut name) } == code::SUCCESS;
        if !known || name.is_null() {
            return format!("error {code}");
        }
        // SAFETY: `name` is not null. CUPTI returns a C string that is static data of the library,
        // which is never unloaded.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// Converts a failure to an error with a remedy.
    pub(super) fn explain(&self, failure: Failure) -> Unavailable {
        unavailable(failure, self.name_of_code(failure.code), self.path.clone())
    }
}

/// Returns the error for a failure. `name` is the name of its code, and `path` is the library.
fn unavailable(failure: Failure, name: String, path: PathBuf) -> Unavailable {
    match failure.code {
        35 | 40 => Unavailable::NotPermitted(name),
        14 | 15 | 999 => Unavailable::DoesNotStart { path, name },
        27 | 33 | 41..=45 => Unavailable::NotSupported(name),
        39 => Unavailable::Claimed { name: None },
        _ => Unavailable::Failed { function: failure.function, name },
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_failure_says_what_to_do() {
        let say = |code| {
            let failure = Failure { function: "cuptiActivityEnable", code };
            unavailable(failure, "CUPTI_ERROR_X".to_owned(), "libcupti.so.13".into()).note()
        };
        for (code, part) in [
            (35, "NVreg_RestrictProfilingToAdminUsers=0"),
            (40, "NVreg_RestrictProfilingToAdminUsers=0"),
            (15, "libcupti.so.13 does not start with this driver (CUPTI_ERROR_X)"),
            (43, "CUPTI does not support this device or system (CUPTI_ERROR_X)"),
            (39, "another tool (Nsight Systems"),
            (998, "cuptiActivityEnable fails with CUPTI_ERROR_X"),
        ] {
            assert!(say(code).contains(part), "{code}: {}", say(code));
        }
        let other = Unavailable::Claimed { name: Some("CUPTI for Kineto".to_owned()) };
        assert!(other.to_string().starts_with("CUPTI for Kineto is using CUPTI"));
    }
}
