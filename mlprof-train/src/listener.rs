//! Callbacks of a run, together with their measured actions.

use super::actions::CallbackActions;
use super::callback::Callback;
use super::module::TrainModule;
use super::module_callback::ModuleCallback;

/// Callback with its name and its measured actions.
pub(super) struct Listener<'run, M: TrainModule> {
    callback: Held<'run, M>,
    pub(super) name: String,
    pub(super) actions: CallbackActions,
    pub(super) is_monitor: bool,
}

enum Held<'run, M: TrainModule> {
    Own(Box<dyn Callback>),
    Lent(&'run mut dyn Callback),
    OfModule(&'run mut dyn ModuleCallback<M>),
}

impl<'run, M: TrainModule> Listener<'run, M> {
    pub(super) fn own(callback: Box<dyn Callback>) -> Self {
        Self::new(Held::Own(callback))
    }

    pub(super) fn lent(callback: &'run mut dyn Callback) -> Self {
        Self::new(Held::Lent(callback))
    }

    pub(super) fn of_module(callback: &'run mut dyn ModuleCallback<M>) -> Self {
        Self::new(Held::OfModule(callback))
    }

    fn new(mut callback: Held<'run, M>) -> Self {
        let (name, is_monitor) = (callback.callback().name(), callback.callback().is_monitor());
        Self { callback, actions: CallbackActions::new(&name), name, is_monitor }
    }

    pub(super) fn callback(&mut self) -> &mut dyn Callback {
        self.callback.callback()
    }

    /// Returns the callback if its hooks receive the module.
    pub(super) fn module_callback(&mut self) -> Option<&mut dyn ModuleCallback<M>> {
        match &mut self.callback {
            Held::OfModule(callback) => Some(&mut **callback),
            Held::Own(_) | Held::Lent(_) => None,
        }
    }
}

impl<M: TrainModule> Held<'_, M> {
    fn callback(&mut self) -> &mut dyn Callback {
        match self {
            Self::Own(callback) => &mut **callback,
            Self::Lent(callback) => &mut **callback,
            Self::OfModule(callback) => &mut **callback,
        }
    }
}

/// Sorts callbacks into the order of their calls. Those that save checkpoints come last, so that a
/// checkpoint contains the effects of all others.
pub(super) fn sort<M: TrainModule>(listeners: &mut [Listener<'_, M>]) {
    listeners.sort_by_key(|listener| listener.callback.saves());
}

impl<M: TrainModule> Held<'_, M> {
    fn saves(&self) -> bool {
        match self {
            Self::Own(callback) => callback.saves_checkpoints(),
            Self::Lent(callback) => callback.saves_checkpoints(),
            Self::OfModule(callback) => callback.saves_checkpoints(),
        }
    }
}

/// Selection of the callbacks to call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// Callbacks that watch metrics.
    Monitors,
    Others,
}

impl Which {
    pub(super) fn includes(self, is_monitor: bool) -> bool {
        match self {
            Self::All => true,
            Self::Monitors => is_monitor,
            Self::Others => !is_monitor,
        }
    }
}
