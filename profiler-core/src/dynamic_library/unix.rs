//! Libraries by `dlopen`: the part of `libloading`'s interface that is used here.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;

/// A loaded library. It is unloaded when this is dropped.
#[derive(Debug)]
pub struct Library(NonNull<c_void>);

// SAFETY: a handle of `dlopen` is not bound to the thread that opened it.
unsafe impl Send for Library {}
// SAFETY: `dlsym`, which is all that is done with a shared handle, may run on several threads at
// once.
unsafe impl Sync for Library {}

/// A function of a library that stays loaded meanwhile.
pub(crate) struct Symbol<'library, T>(T, PhantomData<&'library Library>);

/// The reason why a library or a function cannot be had, as the system words it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(String);

impl Error {
    /// Takes the reason for the last failure on this thread.
    fn last() -> Self {
        // SAFETY: `dlerror` has no requirements. It returns null or a C string that is there until
        // the next call on this thread, and is copied before that.
        let text = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
        Self(text.map_or_else(
            || "the system does not say why".to_owned(),
            |text| text.to_string_lossy().into_owned(),
        ))
    }
}

impl Library {
    /// Loads a library, where the system looks for it if the path is a name alone.
    ///
    /// # Errors
    ///
    /// [`Error`] if the system cannot load it.
    ///
    /// # Safety
    ///
    /// Code that the library runs when it is loaded must be sound in this process.
    pub(crate) unsafe fn new(path: impl AsRef<OsStr>) -> Result<Self, Error> {
        let path = CString::new(path.as_ref().as_bytes())
            .map_err(|_| Error("the path has a zero byte in it".to_owned()))?;
        // SAFETY: the path is a C string that outlives the call; the caller answers for the
        // library.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self).ok_or_else(Error::last)
    }

    /// Returns the function of this name, which ends in a zero byte.
    ///
    /// # Errors
    ///
    /// [`Error`] if the library has none of that name.
    ///
    /// # Safety
    ///
    /// `T` is the type of a pointer to that function. A copy of it must not be called after the
    /// library was dropped.
    pub(crate) unsafe fn get<T: Copy>(&self, name: &[u8]) -> Result<Symbol<'_, T>, Error> {
        const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
        let name = CStr::from_bytes_with_nul(name)
            .map_err(|_| Error("the name does not end in its only zero byte".to_owned()))?;
        // SAFETY: the handle is that of a library that is loaded, and the name is a C string.
        let address = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        if address.is_null() {
            return Err(Error::last());
        }
        // SAFETY: the sizes are equal, and the caller says that the address is one of a `T`.
        Ok(Symbol(unsafe { std::mem::transmute_copy::<*mut c_void, T>(&address) }, PhantomData))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is that of a library that is loaded. It is not used again, and no
        // `Symbol` outlives this.
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
        // SAFETY: nothing is loaded.
        let error = unsafe { Library::new("/there-is/no-such-library.so") }.expect_err("no file");
        assert!(error.to_string().contains("no-such-library.so"), "{error}");
        // SAFETY: nothing is loaded.
        let error = unsafe { Library::new("a\0b") }.expect_err("not a path");
        assert!(error.to_string().contains("zero byte"), "{error}");
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn functions_of_a_library_can_be_called() {
        type Absolute = unsafe extern "C" fn(i32) -> i32;
        // SAFETY: the C library is loaded already.
        let library = unsafe { Library::new("libc.so.6") }.expect("every program has it");
        // SAFETY: `int abs(int)`.
        let absolute = unsafe { library.get::<Absolute>(b"abs\0") }.expect("it is in C's standard");
        // SAFETY: every number but the least has an absolute value.
        assert_eq!(unsafe { absolute(-3) }, 3);
        for name in [&b"there_is_no_such_function\0"[..], b"abs", b"a\0bs\0"] {
            // SAFETY: nothing of that name is there to be called.
            assert!(unsafe { library.get::<Absolute>(name) }.is_err(), "{name:?}");
        }
    }
}
