//! Control interface of the fake driver in C, which runs its device and returns the recorded calls.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};

use libloading::Library;
use mlprof_cuda::Stream;

pub type Handle = *mut c_void;

/// Handle of the fake driver, which is the library that the profiler has loaded.
pub struct Fake(Library);

/// Stream of the fake driver, which is never destroyed.
#[derive(Clone, Copy)]
pub struct FakeStream(pub Handle);

impl FakeStream {
    pub fn stream(self) -> Stream<'static> {
        // SAFETY: the stream and its context exist until the process ends.
        unsafe { Stream::from_raw(self.0) }
    }
}

/// Calls a function of the fake driver.
macro_rules! call {
    ($fake:expr, $name:literal, fn($($type:ty),*) $(-> $result:ty)?, $($argument:expr),*) => {{
        // SAFETY: `driver.c` defines the function with this type. All callers pass handles of the
        // fake driver, integers, or C strings that are valid during the call.
        unsafe {
            let function: libloading::Symbol<'_, unsafe extern "C" fn($($type),*) $(-> $result)?> =
                $fake.0.get($name).expect("a function of driver.c");
            function($($argument),*)
        }
    }};
}

impl Fake {
    pub fn new() -> Self {
        let path = std::env::var_os("MLPROF_CUDA_DRIVER").expect("its path");
        // SAFETY: the library has no initialisers.
        Self(unsafe { Library::new(path) }.expect("the driver"))
    }

    /// Loads the fake driver and makes a context current on the thread.
    pub fn with_context() -> Self {
        let fake = Self::new();
        fake.set_current(fake.context(0));
        fake
    }

    pub fn context(&self, device: c_int) -> Handle {
        call!(self, b"fake_context", fn(c_int) -> Handle, device)
    }

    pub fn set_current(&self, context: Handle) {
        call!(self, b"fake_set_current", fn(Handle), context);
    }

    pub fn current(&self) -> Handle {
        call!(self, b"fake_current", fn() -> Handle,)
    }

    pub fn depth(&self) -> c_int {
        call!(self, b"fake_depth", fn() -> c_int,)
    }

    pub fn primaries(&self) -> c_int {
        call!(self, b"fake_primaries", fn() -> c_int,)
    }

    pub fn stream(&self) -> FakeStream {
        self.stream_of(self.current())
    }

    pub fn stream_of(&self, context: Handle) -> FakeStream {
        FakeStream(call!(self, b"fake_stream", fn(Handle) -> Handle, context))
    }

    pub fn launch(&self, stream: FakeStream, nanoseconds: c_long) {
        call!(self, b"fake_launch", fn(Handle, c_long), stream.0, nanoseconds);
    }

    /// Returns [`run`](Self::run) as a closure that does not look up the symbol again.
    pub fn runner(&self) -> impl Fn() + '_ {
        // SAFETY: `driver.c` defines the function with this type.
        let run: libloading::Symbol<'_, unsafe extern "C" fn()> =
            unsafe { self.0.get(b"fake_run") }.expect("a function of driver.c");
        // SAFETY: the function takes no arguments and may be called at any time.
        move || unsafe { run() }
    }

    pub fn run(&self) {
        call!(self, b"fake_run", fn(),);
    }

    pub fn advance(&self, nanoseconds: c_long) {
        call!(self, b"fake_advance", fn(c_long), nanoseconds);
    }

    /// Sets the capture state: 0 is not captured, 1 is captured, and 2 is waiting for a captured
    /// stream.
    pub fn capture(&self, stream: FakeStream, how: c_int) {
        call!(self, b"fake_capture", fn(Handle, c_int), stream.0, how);
    }

    /// Makes `function` fail from now on.
    pub fn fail(&self, function: &str, code: c_int) {
        let name = CString::new(function).expect("a name").into_raw(); // never freed
        call!(self, b"fake_fail", fn(*const c_char, c_int), name, code);
    }

    /// Returns how often `function` was called.
    pub fn calls(&self, function: &str) -> c_int {
        let name = CString::new(function).expect("a name");
        call!(self, b"fake_calls", fn(*const c_char) -> c_int, name.as_ptr())
    }

    /// Returns the calls since the last query.
    pub fn take_record(&self) -> Vec<String> {
        let text = call!(self, b"fake_record", fn() -> *const c_char,);
        // SAFETY: the function returns a C string with a terminating zero, which stays valid until
        // the next call.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        call!(self, b"fake_forget", fn(),);
        text.lines().map(str::to_owned).collect()
    }
}
