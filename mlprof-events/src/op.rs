//! Start and end of a tensor op.

use super::{Action, Context, InputsBuilder};

/// Direction of an op: the computation itself or its gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Direction {
    /// Computation on the way to the loss, or outside of any training run.
    #[default]
    Forward = 0,
    /// Computation of gradients, starting from the loss.
    Backward = 1,
}

/// An op that begins: see `OpScope::open`.
#[derive(Debug, Clone, Copy)]
pub struct OpStart<'op> {
    /// Name of the op, an [`Action::op`].
    pub action: Action,
    /// Shapes and types of the inputs, if the profiler requests them
    /// ([`Interest::SHAPES`](crate::Interest::SHAPES)).
    pub inputs: Option<&'op InputsBuilder>,
    /// Number that connects a backward op to its forward op. For a launch it is the
    /// [correlation](super::DeviceEvent::correlation). 0 if there is none.
    pub sequence: u32,
    /// Direction of the op: forward or backward.
    pub direction: Direction,
    /// For a backward op, the number of the thread that ran its forward op, as the framework counts
    /// threads. 0 if unknown.
    pub forward_thread: u32,
    /// Actions that were open at the op's call site, if that was on another thread.
    pub context: Option<Context>,
}

impl OpStart<'_> {
    /// The `sequence` for an op to which its framework gives the number 0, because 0 stands for
    /// "none" here. Traces show it as 0.
    #[doc(hidden)]
    pub const FIRST_SEQUENCE: u32 = u32::MAX;

    /// Creates a forward op of which only the name is known.
    #[doc(hidden)]
    #[inline]
    pub const fn new(action: Action) -> Self {
        Self {
            action,
            inputs: None,
            sequence: 0,
            direction: Direction::Forward,
            forward_thread: 0,
            context: None,
        }
    }

    /// Creates a call that submits work to a device, an action of kind
    /// [`Launch`](crate::ActionKind::Launch). The resulting device event has the same
    /// `correlation`, a number above 0 that is used once.
    #[doc(hidden)]
    #[inline]
    pub const fn launch(action: Action, correlation: u32) -> Self {
        Self { sequence: correlation, ..Self::new(action) }
    }
}
