//! Types of the analysis results. All times are whole nanoseconds.

mod device;
mod host;

pub use self::device::*;
pub use self::host::*;
