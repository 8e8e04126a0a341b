//! Ctrl-C in the middle of a fit. This is a separate test binary, because a signal reaches the
//! whole process.

#![cfg(unix)]

#[allow(dead_code)]
#[path = "loop/toy.rs"]
mod toy;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output};

use mlprof_core::{Interrupt, SimpleProfiler};
use mlprof_train::{Callback, HookContext, Result, StopReason, TrainModule, TrainerState};

use crate::toy::{Triple, Watched, inputs, trainer};

/// Raises SIGINT in the middle of the fifth batch.
struct CtrlC;

impl<M: TrainModule> Callback<M> for CtrlC {
    fn on_before_backward(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        if trainer.batch_index() == Some(4) {
            // SAFETY: `raise` accesses no memory of the caller. The signal is either handled by the
            // trainer or ends the child process, as the tests expect.
            unsafe { libc::raise(libc::SIGINT) };
        }
        Ok(())
    }
}

/// Trains like a program without any signal handling.
fn train_without_a_word_about_signals(profiler: Option<SimpleProfiler>) {
    let mut trainer = trainer().callback(CtrlC);
    if let Some(profiler) = profiler {
        trainer = trainer.profiler(profiler);
    }
    trainer.fit(&mut Triple::default(), &inputs(10), None).expect("no error");
    println!("saves the model");
}

#[test]
#[ignore = "the child process of another test"]
fn measured() {
    train_without_a_word_about_signals(Some(SimpleProfiler::new()));
}

#[test]
#[ignore = "the child process of another test"]
fn unmeasured() {
    train_without_a_word_about_signals(None);
}

fn child(test: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    // Tests that run in the background of a shell inherit an ignored SIGINT.
    let receives_signals = || {
        // SAFETY: `signal` is async-signal-safe, so it may be called between fork and exec.
        // `SIG_DFL` installs no handler.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec. It calls only `signal`, which is
    // async-signal-safe, and does not allocate.
    unsafe { command.pre_exec(receives_signals) };
    command.args(["--ignored", "--exact", test, "--nocapture"]).output().expect("a child")
}

#[test]
fn ctrl_c_ends_the_process_as_without_a_profiler_but_with_a_report() {
    for (test, reports) in [("unmeasured", 0), ("measured", 1)] {
        let child = child(test);
        let output = String::from_utf8_lossy(&child.stdout);
        assert_eq!(child.status.signal(), Some(libc::SIGINT), "{test}: {output}");
        assert_eq!(output.matches("FIT Profiler Report").count(), reports, "{output}");
        assert!(!output.contains("saves the model"), "{output}");
    }
}

#[test]
fn ctrl_c_ends_after_the_batch_with_a_checkpoint_if_asked_to() {
    // A shell that starts this test in the background makes it inherit an ignored SIGINT, which
    // would stay ignored.
    // SAFETY: `SIG_DFL` installs no handler, and only this test raises signals in this process.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let watched = Watched::new();
    let directory = tempfile::tempdir().expect("temporary directory");
    let mut triple = Triple::default();
    let mut trainer = trainer()
        .profiler(watched.profiler.clone())
        .on_interrupt(Interrupt::Return)
        .callback(CtrlC)
        .checkpoint_dir(directory.path());
    let outcome = trainer.fit(&mut triple, &inputs(10), Some(&inputs(2))).expect("no error");
    assert_eq!(outcome.stopped, StopReason::Interrupted);
    assert_eq!((outcome.epochs, outcome.steps), (0, 5));
    assert!(directory.path().join("epoch=0-step=5.txt").exists());
    assert_eq!(watched.delivered("fit").lines().nth(1), Some("FIT Profiler Report"));
    assert_eq!(watched.calls("[Strategy]SingleDeviceStrategy.training_step"), 5);
    assert_eq!(watched.calls("[LightningModule]Triple.teardown"), 1);
}
