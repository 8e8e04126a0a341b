//! The CUDA of the tests, as a program would call it.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use libloading::Library;

/// The functions of `cupti.c` that stand for CUDA's.
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

/// The one of this process.
pub fn cuda() -> &'static Cuda {
    static CUDA: OnceLock<Cuda> = OnceLock::new();
    CUDA.get_or_init(|| {
        let path = std::env::var_os("MLPROF_CUPTI_LIBRARY").expect("the library's path");
        // SAFETY: the functions of these names have these types.
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
    /// Runs a kernel that takes `nanoseconds`. Returns its correlation.
    pub fn launch(&self, kernel: &str, stream: u32, nanoseconds: u64) -> u32 {
        // CUPTI keeps names; so does this.
        let name = CString::new(kernel).expect("no zero in a name").into_raw();
        // SAFETY: a text that ends in a zero and stays.
        unsafe { (self.launch)(name, stream, nanoseconds) }
    }

    /// The same for a name that is asked for again and again: kept once.
    pub fn launch_again(&self, kernel: &'static str, stream: u32, nanoseconds: u64) -> u32 {
        static NAME: OnceLock<CString> = OnceLock::new();
        let name = NAME.get_or_init(|| CString::new(kernel).expect("no zero in a name"));
        // SAFETY: a text that ends in a zero and stays.
        unsafe { (self.launch)(name.as_ptr(), stream, nanoseconds) }
    }

    /// Copies to the device.
    pub fn copy(&self, stream: u32, bytes: u64, nanoseconds: u64) -> u32 {
        // SAFETY: takes any numbers.
        unsafe { (self.copy)(stream, bytes, nanoseconds) }
    }

    pub fn fill(&self, stream: u32, bytes: u64, nanoseconds: u64) -> u32 {
        // SAFETY: takes any numbers.
        unsafe { (self.fill)(stream, bytes, nanoseconds) }
    }

    pub fn allocate(&self, address: u64, bytes: u64) {
        // SAFETY: takes any numbers.
        unsafe { (self.memory)(1, address, bytes) }
    }

    pub fn free(&self, address: u64, bytes: u64) {
        // SAFETY: takes any numbers.
        unsafe { (self.memory)(0, address, bytes) }
    }

    pub fn wait(&self, stream: u32) {
        // SAFETY: takes any number.
        unsafe { (self.wait)(stream) }
    }

    /// CUPTI has taken so long for something, by its number.
    pub fn overhead(&self, kind: u32, nanoseconds: u64) {
        // SAFETY: takes any numbers.
        unsafe { (self.overhead)(kind, nanoseconds) }
    }

    /// A library's range of NVTX around `work`.
    pub fn range<T>(
        &self,
        name: &'static CStr,
        domain: &'static CStr,
        work: impl FnOnce() -> T,
    ) -> T {
        // SAFETY: texts that end in a zero and stay.
        let range = unsafe { (self.begin)(name.as_ptr(), domain.as_ptr()) };
        let result = work();
        // SAFETY: takes any number.
        unsafe { (self.end)(range) };
        result
    }

    /// How often a kind of records was turned on.
    pub fn enables(&self) -> i32 {
        // SAFETY: reads a number.
        unsafe { (self.enables)() }
    }

    /// From here on CUPTI tells of nothing.
    pub fn be_silent(&self) {
        // SAFETY: sets a number.
        unsafe { (self.be_silent)() }
    }

    /// How often CUPTI was taken out of the process.
    pub fn finalized(&self) -> i32 {
        // SAFETY: reads a number.
        unsafe { (self.finalized)() }
    }

    /// Whether somebody uses CUPTI now.
    pub fn is_claimed(&self) -> bool {
        // SAFETY: reads a number.
        unsafe { (self.is_claimed)() != 0 }
    }
}
