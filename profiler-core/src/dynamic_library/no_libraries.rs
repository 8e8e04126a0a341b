//! Platforms that load no libraries, such as WebAssembly: the part of `libloading`'s interface that
//! is used here, which always fails.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::ops::Deref;

/// A library that cannot exist.
#[derive(Debug)]
pub enum Library {}

/// A function of such a library.
pub(crate) struct Symbol<'library, T>(T, PhantomData<&'library Library>);

/// The one reason why loading fails.
#[derive(Debug, thiserror::Error)]
#[error("programs load no libraries on this platform")]
pub(crate) struct Error;

impl Library {
    /// # Errors
    ///
    /// Always.
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
