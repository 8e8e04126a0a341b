//! A callback with its name and its interned actions.

use super::actions::CallbackActions;
use super::module::{Callback, TrainModule};

/// A callback with its name and its interned actions.
pub(super) struct Listener<'run, M: TrainModule> {
    callback: Held<'run, M>,
    pub(super) name: String,
    pub(super) actions: CallbackActions,
    pub(super) is_monitor: bool,
    pub(super) saves_checkpoints: bool,
}

enum Held<'run, M: TrainModule> {
    Owned(Box<dyn Callback<M>>),
    Borrowed(&'run mut dyn Callback<M>),
}

impl<'run, M: TrainModule> Listener<'run, M> {
    pub(super) fn owned(callback: Box<dyn Callback<M>>) -> Self {
        Self::new(Held::Owned(callback))
    }

    pub(super) fn borrowed(callback: &'run mut dyn Callback<M>) -> Self {
        Self::new(Held::Borrowed(callback))
    }

    fn new(mut held: Held<'run, M>) -> Self {
        let callback = held.callback();
        let name = callback.name();
        Self {
            actions: CallbackActions::new(&name),
            is_monitor: callback.is_monitor(),
            saves_checkpoints: callback.saves_checkpoints(),
            name,
            callback: held,
        }
    }

    pub(super) fn callback(&mut self) -> &mut dyn Callback<M> {
        self.callback.callback()
    }
}

impl<M: TrainModule> Held<'_, M> {
    fn callback(&mut self) -> &mut dyn Callback<M> {
        match self {
            Self::Owned(callback) => &mut **callback,
            Self::Borrowed(callback) => &mut **callback,
        }
    }
}

/// Sorts listeners into calling order: those that save checkpoints come last, and see what all
/// others have done.
pub(super) fn sort<M: TrainModule>(listeners: &mut [Listener<'_, M>]) {
    listeners.sort_by_key(|listener| listener.saves_checkpoints);
}

/// The callbacks that a hook is called for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    All,
    /// Callbacks that watch metrics.
    Monitors,
    Others,
}

impl Selection {
    pub(super) fn includes(self, is_monitor: bool) -> bool {
        match self {
            Self::All => true,
            Self::Monitors => is_monitor,
            Self::Others => !is_monitor,
        }
    }
}
