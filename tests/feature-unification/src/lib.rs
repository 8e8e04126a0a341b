//! Nothing: what is built together with this package gets the features that its manifest names.
//!
//! Cargo gives a crate the features that the packages of a command ask for. Whatever two commands ask differently for
//! is built twice, and with it all that stands on it: of two hours of building that was a good part.
