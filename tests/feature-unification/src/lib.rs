//! An empty package, which enables dependency features for all packages that are built with it.
//!
//! Cargo enables the features of a crate that the packages of a command request. If two commands
//! request different features, the crate and everything that depends on it are built twice. This
//! took a large part of two hours of build time.
