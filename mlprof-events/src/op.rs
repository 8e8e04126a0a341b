//! The beginning and the end of a tensor op.

use super::{Action, Context, InputsBuilder};

/// Whether an op computes something or its gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Direction {
    /// On the way to the loss, or outside of any training.
    #[default]
    Forward = 0,
    /// From the loss back to the gradients.
    Backward = 1,
}

/// An op that begins: see `OpScope::open`.
#[derive(Debug, Clone, Copy)]
pub struct OpStart<'op> {
    /// Its name, an [`Action::op`].
    pub action: Action,
    /// Its inputs' shapes and types, if the profiler wants them ([`Interest::SHAPES`](crate::Interest::SHAPES)).
    pub inputs: Option<&'op InputsBuilder>,
    /// The number that ties a backward op to its forward op; the
    /// [correlation](super::DeviceEvent::correlation) if it is a launch. 0: none.
    pub sequence: u32,
    /// Forward or backward.
    pub direction: Direction,
    /// Of a backward op: the number of the thread that its forward op ran on, as the framework
    /// counts threads. 0: not known.
    pub forward_thread: u32,
    /// What was open where the op was called, if that was another thread.
    pub context: Option<Context>,
}

impl OpStart<'_> {
    /// The `sequence` of an op whose framework counts it as number 0, which is none here: traces write it
    /// as 0.
    #[doc(hidden)]
    pub const FIRST_SEQUENCE: u32 = u32::MAX;

    /// A forward op of which nothing but the name is known.
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

    /// A call that hands work to a device, an action of kind
    /// [`Launch`](crate::ActionKind::Launch). What then runs has the same `correlation`, a number
    /// above 0 that is used once.
    #[doc(hidden)]
    #[inline]
    pub const fn launch(action: Action, correlation: u32) -> Self {
        Self { sequence: correlation, ..Self::new(action) }
    }
}
