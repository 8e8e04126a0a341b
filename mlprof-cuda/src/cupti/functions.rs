//! libcupti's functions, found at run time.
//!
//! `cudarc::cupti` has them, too, but looks for one version of the library, chosen when it is compiled,
//! under the loader's names only, panics without it, and cannot be loaded at run time beside candle,
//! which links CUDA. Types as in NVIDIA's `cupti_activity.h` and `cupti_callbacks.h`, 12.9 to 13.5.

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

use super::unavailable::Unavailable;
use crate::locate_cupti::{self, Surroundings};

/// What functions return; 0 if they have worked.
pub(super) type Code = u32;

/// Codes that mean something to us.
pub(super) mod code {
    pub(in super::super) const SUCCESS: u32 = 0;
    pub(in super::super) const MAX_LIMIT_REACHED: u32 = 12;
    pub(in super::super) const MULTIPLE_SUBSCRIBERS: u32 = 39;
}

/// CUPTI wants room for records: where, how much, and how many at most (0: as many as fit).
pub(super) type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// CUPTI gives room back: a context and a stream (no longer used), where, how much, and how much of it
/// is filled.
pub(super) type BufferCompleted = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// CUPTI wants the time.
pub(super) type Timestamp = extern "C" fn() -> u64;
/// A callback of a subscriber, which is never called, since none is enabled.
pub(super) type Callback = extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// `CUpti_SubscriberParams`.
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
        /// See the [module](self).
        pub(crate) struct Functions {
            $($(#[$doc])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> Code,)*
            $($(#[$optional_doc])* pub(super) $optional: Option<unsafe extern "C" fn($($optional_argument),*) -> Code>,)*
            /// Where they come from.
            pub(super) path: PathBuf,
        }

        impl Functions {
            fn of(library: &Library, path: PathBuf) -> Result<Self, libloading::Error> {
                // SAFETY: the functions of these names have these types.
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
        /// The name of a code.
        result_string = b"cuptiGetResultString\0": fn(Code, *mut *const c_char);
        /// Claims CUPTI, of which a process has one user at a time.
        subscribe = b"cuptiSubscribe\0": fn(*mut *mut c_void, Callback, *mut c_void);
        /// Gives it back.
        unsubscribe = b"cuptiUnsubscribe\0": fn(*mut c_void);
        /// Who has room for records.
        register_callbacks = b"cuptiActivityRegisterCallbacks\0": fn(BufferRequested, BufferCompleted);
        /// Records of a kind are collected from here on.
        enable = b"cuptiActivityEnable\0": fn(u32);
        /// They are not any more.
        disable = b"cuptiActivityDisable\0": fn(u32);
        /// Gives back what is complete (0) or all (1).
        flush_all = b"cuptiActivityFlushAll\0": fn(u32);
        /// The record after the one given; null: the first one.
        next_record = b"cuptiActivityGetNextRecord\0": fn(*mut u8, usize, *mut *mut u8);
        /// Records that found no room since the last call.
        dropped_records = b"cuptiActivityGetNumDroppedRecords\0": fn(*mut c_void, u32, *mut usize);
        /// The calling thread's calls belong to a number of ours from here on.
        push_correlation = b"cuptiActivityPushExternalCorrelationId\0": fn(u32, u64);
        /// To the one before.
        pop_correlation = b"cuptiActivityPopExternalCorrelationId\0": fn(u32, *mut u64);
        /// The time that records have.
        timestamp = b"cuptiGetTimestamp\0": fn(*mut u64);
        /// The name of a function of CUDA's, by domain (1 the driver's, 2 the runtime's) and number.
        callback_name = b"cuptiGetCallbackName\0": fn(u32, u32, *mut *const c_char);
    }
    optional {
        /// The same, and the name of whoever has claimed it before.
        subscribe_named = b"cuptiSubscribe_v2\0": fn(*mut *mut c_void, Callback, *mut c_void, *mut SubscriberParameters);
        /// Records have the time of a clock of ours.
        register_timestamp = b"cuptiActivityRegisterTimestampCallback\0": fn(Timestamp);
        /// How records number threads: 1 as the operating system does.
        set_thread_numbers = b"cuptiSetThreadIdType\0": fn(u32);
        /// Its number of a context.
        context_number = b"cuptiGetContextId\0": fn(*mut c_void, *mut u32);
        /// Its number of a context's stream; the third argument says whether the default stream is
        /// each thread's own.
        stream_number = b"cuptiGetStreamIdEx\0": fn(*mut c_void, *mut c_void, u8, *mut u32);
        /// Takes CUPTI out of the process.
        finalize = b"cuptiFinalize\0": fn();
    }
}

/// A function that has not worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) function: &'static str,
    pub(super) code: Code,
}

/// An error unless it has worked.
pub(super) fn check(function: &'static str, code: Code) -> Result<(), Failure> {
    if code == code::SUCCESS { Ok(()) } else { Err(Failure { function, code }) }
}

extern "C" fn no_callback(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

impl Functions {
    /// Looks for libcupti and loads it. `driver` is CUDA's major version that the driver knows.
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
                // A name that the loader does not find is no error worth telling of.
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
        // SAFETY: the library initializes itself without requirements.
        let library = unsafe { Library::new(path) }?;
        let functions = Self::of(&library, path.to_owned());
        // Its functions are called until the process ends, by threads of its own, too.
        std::mem::forget(library);
        functions
    }

    /// Claims CUPTI. Fails if somebody has done so before.
    pub(super) fn claim(&self) -> Result<*mut c_void, Unavailable> {
        let mut subscriber = std::ptr::null_mut();
        // SAFETY: the place is ours; the callback is there for the life of the process.
        let code = unsafe { (self.subscribe)(&mut subscriber, no_callback, std::ptr::null_mut()) };
        match check("cuptiSubscribe", code) {
            Ok(()) => Ok(subscriber),
            Err(failure) if failure.code == code::MULTIPLE_SUBSCRIBERS => {
                Err(Unavailable::Claimed { name: self.other_subscriber() })
            }
            Err(failure) => Err(self.explain(failure)),
        }
    }

    /// The name of whoever has claimed CUPTI, if it says so.
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
        // SAFETY: all places are ours, and the name's has the room that is said.
        let code = unsafe { subscribe(&mut subscriber, no_callback, nothing, &mut parameters) };
        if code == code::SUCCESS {
            // It has gone meanwhile; the next attempt will find that.
            // SAFETY: what was just given.
            unsafe { (self.unsubscribe)(subscriber) };
            return None;
        }
        let name = CStr::from_bytes_until_nul(&name).ok()?.to_string_lossy().into_owned();
        (!name.is_empty()).then_some(name)
    }

    /// The name of a function of CUDA's.
    pub(super) fn name_of_call(&self, is_driver: bool, number: u32) -> Option<String> {
        let mut name = std::ptr::null();
        // SAFETY: the place is ours.
        let code =
            unsafe { (self.callback_name)(if is_driver { 1 } else { 2 }, number, &mut name) };
        if code != code::SUCCESS || name.is_null() {
            return None;
        }
        // SAFETY: it ends in a zero, and is there as long as the library.
        let name = unsafe { CStr::from_ptr(name) };
        Some(name.to_string_lossy().into_owned())
    }

    /// What a code is called.
    pub(super) fn name_of_code(&self, code: Code) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the place is ours.
        let known = unsafe { (self.result_string)(code, &mut name) } == code::SUCCESS;
        if !known || name.is_null() {
            return format!("error {code}");
        }
        // SAFETY: it ends in a zero, and is there as long as the library.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// A failure in words.
    pub(super) fn explain(&self, failure: Failure) -> Unavailable {
        unavailable(failure, self.name_of_code(failure.code), self.path.clone())
    }
}

/// What a failure means. `name` is the error's, `path` the library's.
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
            (43, "CUPTI does not work here (CUPTI_ERROR_X)"),
            (39, "another tool (Nsight Systems"),
            (998, "cuptiActivityEnable fails with CUPTI_ERROR_X"),
        ] {
            assert!(say(code).contains(part), "{code}: {}", say(code));
        }
        let other = Unavailable::Claimed { name: Some("CUPTI for Kineto".to_owned()) };
        assert!(other.to_string().starts_with("CUPTI for Kineto is using CUPTI"));
    }
}
