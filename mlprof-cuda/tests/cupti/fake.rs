//! Fake CUDA for the tests, with the calls that a program would make.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use libloading::Library;

/// Functions of `cupti.c` that replace CUDA's.
pub struct Cuda {
    launch: unsafe extern "C" fn(*const std::ffi::c_char, u32, u64) -> u32,
    copy: unsafe extern "C" fn(u32, u64, u64) -> u32,
    fill: unsafe extern "C" fn(u32, u64, u64) -> u32,
    memory: unsafe extern "C" fn(i32, u64, u64),
    wait: unsafe extern "C" fn(u32),
    overhead: unsafe extern "C" fn(u32, u64),
    begin: unsafe extern "C" fn(*const std::ffi::c_char, *const std::ffi::c_char) -> u32,
    end: unsafe extern "C" fn(u32),
    enables: unsafe extern "C" fn() -> i32,
    finalized: unsafe extern "C" fn() -> i32,
    be_silent: unsafe extern "C" fn(),
    is_claimed: unsafe extern "C" fn() -> i32,
}

/// Returns the fake CUDA of this process.
pub fn cuda() -> &'static Cuda {
    static CUDA: OnceLock<Cuda> = OnceLock::new();
    CUDA.get_or_init(|| {
        let path = std::env::var_os("MLPROF_CUPTI_LIBRARY").expect("the library's path");
        // SAFETY: `cupti.c` has no initialisers with preconditions. Each field's type matches the
        // function of this name there. The library is never unloaded, so the copied pointers stay
        // valid.
        unsafe {
            let library = Library::new(path).expect("it loads");
            let cuda = Cuda {
                launch: *library.get(b"fake_launch\0").expect("a function"),
                copy: *library.get(b"fake_copy\0").expect("a function"),
                fill: *library.get(b"fake_fill\0").expect("a function"),
                memory: *library.get(b"fake_memory\0").expect("a function"),
                wait: *library.get(b"fake_wait\0").expect("a function"),
                overhead: *library.get(b"fake_overhead\0").expect("a function"),
                begin: *library.get(b"fake_begin\0").expect("a function"),
                end: *library.get(b"fake_end\0").expect("a function"),
                enables: *library.get(b"fake_enables\0").expect("a function"),
                finalized: *library.get(b"fake_finalized\0").expect("a function"),
                be_silent: *library.get(b"fake_be_silent\0").expect("a function"),
                is_claimed: *library.get(b"fake_is_claimed\0").expect("a function"),
            };
            std::mem::forget(library);
            cuda
        }
    })
}

impl Cuda {
    /// Runs a kernel that takes `nanoseconds` and returns its correlation id.
    pub fn launch(&self, kernel: &str, stream: u32, nanoseconds: u64) -> u32 {
        // CUPTI keeps kernel names, so this name is never freed.
        let name = CString::new(kernel).expect("no zero in a name").into_raw();
        // SAFETY: `name` is a C string with a terminating zero that is never freed. The other
        // arguments are integers.
        unsafe { (self.launch)(name, stream, nanoseconds) }
    }

    /// Runs a kernel like [`launch`](Self::launch), but allocates its name only once. Use it for a
    /// single name that is launched many times.
    pub fn launch_again(&self, kernel: &'static str, stream: u32, nanoseconds: u64) -> u32 {
        static NAME: OnceLock<CString> = OnceLock::new();
        let name = NAME.get_or_init(|| CString::new(kernel).expect("no zero in a name"));
        // SAFETY: the name is a C string with a terminating zero in a static. The other arguments
        // are integers.
        unsafe { (self.launch)(name.as_ptr(), stream, nanoseconds) }
    }

    /// Copies data to the device.
    pub fn copy(&self, stream: u32, bytes: u64, nanoseconds: u64) -> u32 {
        // SAFETY: the function takes integers and has no preconditions.
        unsafe { (self.copy)(stream, bytes, nanoseconds) }
    }

    pub fn fill(&self, stream: u32, bytes: u64, nanoseconds: u64) -> u32 {
        // SAFETY: the function takes integers and has no preconditions.
        unsafe { (self.fill)(stream, bytes, nanoseconds) }
    }

    pub fn allocate(&self, address: u64, bytes: u64) {
        // SAFETY: the function takes integers and has no preconditions.
        unsafe { (self.memory)(1, address, bytes) }
    }

    pub fn free(&self, address: u64, bytes: u64) {
        // SAFETY: the function takes integers and has no preconditions.
        unsafe { (self.memory)(0, address, bytes) }
    }

    pub fn wait(&self, stream: u32) {
        // SAFETY: the function takes an integer and has no preconditions.
        unsafe { (self.wait)(stream) }
    }

    /// Records an overhead of `nanoseconds` with CUPTI's number of its kind.
    pub fn overhead(&self, kind: u32, nanoseconds: u64) {
        // SAFETY: the function takes integers and has no preconditions.
        unsafe { (self.overhead)(kind, nanoseconds) }
    }

    /// Runs `work` within an NVTX range of a library.
    pub fn range<T>(
        &self,
        name: &'static CStr,
        domain: &'static CStr,
        work: impl FnOnce() -> T,
    ) -> T {
        // SAFETY: both arguments are static C strings.
        let range = unsafe { (self.begin)(name.as_ptr(), domain.as_ptr()) };
        let result = work();
        // SAFETY: the function takes an integer and has no preconditions.
        unsafe { (self.end)(range) };
        result
    }

    /// Returns how often a record kind was enabled.
    pub fn enables(&self) -> i32 {
        // SAFETY: the function takes no arguments and has no preconditions.
        unsafe { (self.enables)() }
    }

    /// Makes CUPTI record no more activity.
    pub fn be_silent(&self) {
        // SAFETY: the function takes no arguments and has no preconditions.
        unsafe { (self.be_silent)() }
    }

    /// Returns how often CUPTI was removed from the process.
    pub fn finalized(&self) -> i32 {
        // SAFETY: the function takes no arguments and has no preconditions.
        unsafe { (self.finalized)() }
    }

    /// Returns `true` if CUPTI has a subscriber.
    pub fn is_claimed(&self) -> bool {
        // SAFETY: the function takes no arguments and has no preconditions.
        unsafe { (self.is_claimed)() != 0 }
    }
}
