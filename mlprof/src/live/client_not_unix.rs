//! Nobody can be asked where there are no Unix sockets.

use std::collections::HashSet;

use mlprof_events::live::{Answer, Request};

use super::listed::Listed;
use super::{Error, ProcessName};

/// There is none.
pub(super) enum Client {}

impl Client {
    pub(super) fn connect(_name: ProcessName) -> Result<Self, Error> {
        Err(Error::NotUnix)
    }

    pub(super) fn all_but(_known: &HashSet<String>) -> Result<Vec<Self>, Error> {
        Err(Error::NotUnix)
    }

    pub(super) fn key(&self) -> String {
        match *self {}
    }

    pub(super) fn process(&self) -> ProcessName {
        match *self {}
    }

    pub(super) fn ask(&mut self, _request: Request) -> Result<Answer, Error> {
        match *self {}
    }

    pub(super) fn wait_for_ever(&self) -> Result<(), Error> {
        match *self {}
    }

    pub(super) fn answer(&mut self) -> Result<Answer, Error> {
        match *self {}
    }

    pub(super) fn bytes(&mut self, _count: u64) -> Result<Vec<u8>, Error> {
        match *self {}
    }
}

/// Nobody listens.
pub(super) fn survey() -> Result<Vec<Listed>, Error> {
    Err(Error::NotUnix)
}
