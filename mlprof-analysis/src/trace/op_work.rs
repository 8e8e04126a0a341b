//! Work of ops, computed from the inputs in the trace.

use mlprof_events::DType;

/// Work of one call of an op, as far as the trace determines it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpWork {
    /// Floating-point operations.
    pub flops: Option<u64>,
    /// Bytes that the op reads and writes at least.
    pub bytes: Option<u64>,
    /// Type of the first input with a floating-point type.
    pub dtype: Option<DType>,
}
