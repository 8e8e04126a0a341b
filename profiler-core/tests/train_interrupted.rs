//! Ctrl-C in the middle of a fit. A test binary of its own, as a signal reaches the whole process.

#[allow(dead_code)]
#[path = "train/toy.rs"]
mod toy;

use profiler_core::train::{Callback, Result, StopReason, TrainerState};

use crate::toy::{Triple, Watched, inputs, trainer};

/// Sends the signal in the middle of the fifth batch.
struct CtrlC;

impl Callback for CtrlC {
    fn on_before_backward(&mut self, trainer: &mut TrainerState) -> Result<()> {
        if trainer.batch_index() == Some(4) {
            // SAFETY: raises a signal that the trainer has a handler for.
            unsafe { libc::raise(libc::SIGINT) };
        }
        Ok(())
    }
}

#[test]
fn ctrl_c_ends_after_the_batch_with_a_checkpoint() {
    let watched = Watched::new();
    let directory = tempfile::tempdir().expect("temporary directory");
    let mut triple = Triple::default();
    let mut trainer = trainer()
        .profiler(watched.profiler.clone())
        .expect("a profiler")
        .callback(CtrlC)
        .checkpoint_dir(directory.path());
    let outcome = trainer.fit(&mut triple, &inputs(10), Some(&inputs(2))).expect("no error");
    assert_eq!(outcome.stopped, StopReason::Interrupted);
    assert_eq!((outcome.epochs, outcome.steps), (0, 5));
    assert!(directory.path().join("epoch=0-step=5.txt").exists());
    assert!(watched.delivered("fit").starts_with("FIT Profiler Report"));
    assert_eq!(watched.calls("[Strategy]SingleDeviceStrategy.training_step"), 5);
    assert_eq!(watched.calls("[LightningModule]Triple.teardown"), 1);
}
