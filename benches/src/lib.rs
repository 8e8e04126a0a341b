//! What mlprof costs, beside its peers.
//!
//! Two programs: `scopes` measures the time that one scope costs ([`harness`] has the method,
//! [`subjects`] what is compared), `memory` shows that a profiler's memory does not depend on the
//! number of calls.

pub mod budget;
pub mod conditions;
pub mod harness;
pub mod results;
pub mod subjects;
