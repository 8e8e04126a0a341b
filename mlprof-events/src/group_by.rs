//! By what the rows of a table are told apart.

use serde::{Deserialize, Serialize};

/// What makes two calls rows of their own. Always their name; everything else is added.
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
    /// The shapes of the inputs.
    pub input_shapes: bool,
    /// So many of the innermost functions, spans, actions and modules around it; 0: none. Of a
    /// backward op they are those around backward.
    pub stack: usize,
    /// The innermost module around it; of a backward op, the module that its forward op ran in.
    pub module: bool,
    /// Forward, backward, optimizer or other; see [`Phase`](crate::Phase).
    pub phase: bool,
}

impl GroupBy {
    /// By name alone.
    pub const fn name() -> Self {
        Self { input_shapes: false, stack: 0, module: false, phase: false }
    }

    /// And by the shapes of the inputs.
    #[must_use]
    pub const fn input_shapes(self) -> Self {
        Self { input_shapes: true, ..self }
    }

    /// And by the `n` innermost functions, spans, actions and modules around.
    #[must_use]
    pub const fn stack(self, n: usize) -> Self {
        Self { stack: n, ..self }
    }

    /// And by module.
    #[must_use]
    pub const fn module(self) -> Self {
        Self { module: true, ..self }
    }

    /// And by phase.
    #[must_use]
    pub const fn phase(self) -> Self {
        Self { phase: true, ..self }
    }
}
