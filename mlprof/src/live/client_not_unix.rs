//! Client for systems without Unix sockets, where no process can be queried.

use std::collections::HashSet;

use mlprof_events::live::{Answer, Request};

use super::listed::Listed;
use super::{Error, ProcessName};

/// Uninhabited: a client cannot exist on these systems.
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

/// Returns an error, because no process can listen here.
pub(super) fn survey() -> Result<Vec<Listed>, Error> {
    Err(Error::NotUnix)
}
