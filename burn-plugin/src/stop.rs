//! Ctrl-C during a stage: finish the batch, report, end.

use std::sync::Arc;

use burn::data::dataset::DatasetError;
use burn::train::Interrupter;
use profiler_core::interrupt::{Watch, watch};

/// The reason that a fit gives when Ctrl-C (or a termination request) ended it.
pub const INTERRUPTED: &str = "interrupted from outside (Ctrl-C or a termination signal)";

/// While it or a clone lives, the first Ctrl-C asks the stage to end; the second leaves at once.
#[derive(Clone)]
pub(crate) struct StopSignal {
    watch: Arc<Watch>,
    interrupter: Option<Interrupter>,
}

#[derive(Debug, thiserror::Error)]
#[error("{INTERRUPTED}")]
struct Interrupted;

impl StopSignal {
    pub(crate) fn new() -> Self {
        Self { watch: Arc::new(watch()), interrupter: None }
    }

    /// The signal, told to a fit through its `interrupter`.
    pub(crate) fn with_interrupter(mut self, interrupter: Interrupter) -> Self {
        self.interrupter = Some(interrupter);
        self
    }

    /// Passes the request on to the interrupter, if there is one. *Cost*: one relaxed load.
    pub(crate) fn check(&self) {
        if let (true, Some(interrupter)) = (self.watch.requested(), &self.interrupter)
            && !interrupter.should_stop()
        {
            interrupter.stop(Some(INTERRUPTED));
        }
    }

    /// [`check`](Self::check) before a batch is fetched. Where no interrupter can be reached, the
    /// request becomes the loader's error, the only way left to end the loop.
    pub(crate) fn check_loader(&self) -> Option<DatasetError> {
        self.check();
        (self.interrupter.is_none() && self.watch.requested())
            .then(|| DatasetError::new(Interrupted))
    }
}
