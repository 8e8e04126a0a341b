//! Grouping of calls into table rows.

use serde::{Deserialize, Serialize};

/// Criteria that group calls into rows of a table. Calls are always grouped by name; each option
/// adds a criterion.
///
/// ```
/// use mlprof_core::tensor::GroupBy;
///
/// let by_name = GroupBy::name();
/// let fine = GroupBy::name().input_shapes().stack(5).phase();
/// assert_ne!(by_name, fine);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupBy {
    /// Enables grouping by the shapes of the inputs.
    pub input_shapes: bool,
    /// Number of innermost enclosing functions, spans, actions and modules to group by; 0 for none.
    /// For a backward op they are those that enclose the backward call.
    pub stack: usize,
    /// Enables grouping by the innermost enclosing module. For a backward op it is the module in
    /// which its forward op ran.
    pub module: bool,
    /// Enables grouping by forward, backward, optimizer or other; see [`Phase`](crate::Phase).
    pub phase: bool,
}

impl GroupBy {
    /// Groups by name alone.
    pub const fn name() -> Self {
        Self { input_shapes: false, stack: 0, module: false, phase: false }
    }

    /// Adds grouping by the shapes of the inputs.
    #[must_use]
    pub const fn input_shapes(self) -> Self {
        Self { input_shapes: true, ..self }
    }

    /// Adds grouping by the `n` innermost enclosing functions, spans, actions and modules.
    #[must_use]
    pub const fn stack(self, n: usize) -> Self {
        Self { stack: n, ..self }
    }

    /// Adds grouping by module.
    #[must_use]
    pub const fn module(self) -> Self {
        Self { module: true, ..self }
    }

    /// Adds grouping by phase.
    #[must_use]
    pub const fn phase(self) -> Self {
        Self { phase: true, ..self }
    }
}
