//! Dynamic libraries through `dlopen`, with the parts of the `libloading` API that are used here.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;

/// A loaded library, unloaded when dropped.
#[derive(Debug)]
pub struct Library(NonNull<c_void>);

// SAFETY: a `dlopen` handle is valid on every thread, so another thread may use and close it.
unsafe impl Send for Library {}
// SAFETY: shared references only allow calls of `dlsym`, which may run on several threads
// concurrently.
unsafe impl Sync for Library {}

/// Function of a library. The lifetime keeps the library loaded.
pub(crate) struct Symbol<'library, T>(T, PhantomData<&'library Library>);

/// System error message for a library or function that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(String);

impl Error {
    /// Returns the last error of this thread.
    fn last() -> Self {
        // SAFETY: `dlerror` has no preconditions. It returns null or a C string that is valid until
        // the next `dlerror` call on this thread. The string is copied before that.
        let text = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
        Self(text.map_or_else(
            || "the system gives no reason".to_owned(),
            |text| text.to_string_lossy().into_owned(),
        ))
    }
}

impl Library {
    /// Loads a library. A bare file name is searched in the system's library path.
    ///
    /// # Errors
    ///
    /// [`Error`] if the system cannot load the library.
    ///
    /// # Safety
    ///
    /// The library's initialisers and finalisers must be sound to run in this process.
    pub(crate) unsafe fn new(path: impl AsRef<OsStr>) -> Result<Self, Error> {
        let path = CString::new(path.as_ref().as_bytes())
            .map_err(|_| Error("the path contains a zero byte".to_owned()))?;
        // SAFETY: `path` is a NUL-terminated string that outlives the call. The caller guarantees
        // that running the library's initialisers is sound.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self).ok_or_else(Error::last)
    }

    /// Returns the function `name`, which must end with a zero byte.
    ///
    /// # Errors
    ///
    /// [`Error`] if the library does not export that function.
    ///
    /// # Safety
    ///
    /// `T` must be a pointer type that matches the function's signature. A copy of it must not be
    /// called after the library is dropped.
    pub(crate) unsafe fn get<T: Copy>(&self, name: &[u8]) -> Result<Symbol<'_, T>, Error> {
        const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
        let name = CStr::from_bytes_with_nul(name)
            .map_err(|_| Error("the name must contain one zero byte, at its end".to_owned()))?;
        // SAFETY: `self` keeps the library loaded, so the handle is valid. `name` is a
        // NUL-terminated string.
        let address = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        if address.is_null() {
            return Err(Error::last());
        }
        // SAFETY: the assertion above checks that both types have the same size. The caller
        // guarantees that the non-null address is a valid value of type `T`.
        Ok(Symbol(unsafe { std::mem::transmute_copy::<*mut c_void, T>(&address) }, PhantomData))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle comes from `dlopen` and is closed only here. No `Symbol` outlives the
        // library, because it borrows the library.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

impl<T> Deref for Symbol<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_an_error_that_names_it() {
        // SAFETY: the file does not exist, so no initialiser runs.
        let error = unsafe { Library::new("/there-is/no-such-library.so") }.expect_err("no file");
        assert!(error.to_string().contains("no-such-library.so"), "{error}");
        // SAFETY: the path is invalid, so no initialiser runs.
        let error = unsafe { Library::new("a\0b") }.expect_err("not a path");
        assert!(error.to_string().contains("zero byte"), "{error}");
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn functions_of_a_library_can_be_called() {
        type Absolute = unsafe extern "C" fn(i32) -> i32;
        // SAFETY: the C library is already loaded, so no initialiser runs.
        let library = unsafe { Library::new("libc.so.6") }.expect("every program has it");
        // SAFETY: the type matches the C declaration `int abs(int)`.
        let absolute = unsafe { library.get::<Absolute>(b"abs\0") }.expect("it is in C's standard");
        // SAFETY: `abs` is defined for every value except the minimum.
        assert_eq!(unsafe { absolute(-3) }, 3);
        for name in [&b"there_is_no_such_function\0"[..], b"abs", b"a\0bs\0"] {
            // SAFETY: no such function exists, so `get` does not return a symbol.
            assert!(unsafe { library.get::<Absolute>(name) }.is_err(), "{name:?}");
        }
    }
}
