//! Stub for platforms without dynamic libraries, such as WebAssembly. It implements the parts of
//! the `libloading` API that are used here, and loading always fails.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::ops::Deref;

/// Uninhabited type in place of a loaded library.
#[derive(Debug)]
pub enum Library {}

/// Function of such a library.
pub(crate) struct Symbol<'library, T>(T, PhantomData<&'library Library>);

/// Error returned by every attempt to load a library.
#[derive(Debug, thiserror::Error)]
#[error("programs cannot load libraries on this platform")]
pub(crate) struct Error;

impl Library {
    /// # Errors
    ///
    /// Always returns [`Error`].
    pub(crate) unsafe fn new(_path: impl AsRef<OsStr>) -> Result<Self, Error> {
        Err(Error)
    }

    pub(crate) unsafe fn get<T>(&self, _name: &[u8]) -> Result<Symbol<'_, T>, Error> {
        match *self {}
    }
}

impl<T> Deref for Symbol<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
