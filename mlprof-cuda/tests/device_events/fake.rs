//! The other side of the driver in C: what makes its device run, and what it was asked for.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};

use libloading::Library;
use mlprof_cuda::Stream;

pub type Handle = *mut c_void;

/// The driver that the profiler has loaded, too.
pub struct Fake(Library);

/// A stream of the driver's. There is no end to its life.
#[derive(Clone, Copy)]
pub struct FakeStream(pub Handle);

impl FakeStream {
    pub fn stream(self) -> Stream<'static> {
        // SAFETY: it lives as long as the process.
        unsafe { Stream::from_raw(self.0) }
    }
}

/// A call of a function of the driver's.
macro_rules! call {
    ($fake:expr, $name:literal, fn($($type:ty),*) $(-> $result:ty)?, $($argument:expr),*) => {{
        // SAFETY: the function has this type, and takes these arguments.
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
        // SAFETY: it does nothing when it is loaded.
        Self(unsafe { Library::new(path) }.expect("the driver"))
    }

    /// With a context, which is the thread's own.
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

    /// [`run`](Self::run), looked up.
    pub fn runner(&self) -> impl Fn() + '_ {
        // SAFETY: the function has this type.
        let run: libloading::Symbol<'_, unsafe extern "C" fn()> =
            unsafe { self.0.get(b"fake_run") }.expect("a function of driver.c");
        // SAFETY: it takes nothing, and may be called at any time.
        move || unsafe { run() }
    }

    pub fn run(&self) {
        call!(self, b"fake_run", fn(),);
    }

    pub fn advance(&self, nanoseconds: c_long) {
        call!(self, b"fake_advance", fn(c_long), nanoseconds);
    }

    /// 0: not captured; 1: captured; 2: another stream is, which this one waits for.
    pub fn capture(&self, stream: FakeStream, how: c_int) {
        call!(self, b"fake_capture", fn(Handle, c_int), stream.0, how);
    }

    /// From here on `function` fails.
    pub fn fail(&self, function: &str, code: c_int) {
        let name = CString::new(function).expect("a name").into_raw(); // never freed
        call!(self, b"fake_fail", fn(*const c_char, c_int), name, code);
    }

    /// How often `function` was called.
    pub fn calls(&self, function: &str) -> c_int {
        let name = CString::new(function).expect("a name");
        call!(self, b"fake_calls", fn(*const c_char) -> c_int, name.as_ptr())
    }

    /// What was called since it was asked last.
    pub fn take_record(&self) -> Vec<String> {
        let text = call!(self, b"fake_record", fn() -> *const c_char,);
        // SAFETY: a text that ends in a zero.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        call!(self, b"fake_forget", fn(),);
        text.lines().map(str::to_owned).collect()
    }
}
