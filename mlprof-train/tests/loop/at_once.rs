//! Several trainings at once in one process, each with its own profiler.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier};
use std::thread;

use mlprof_core::{bound, profile};
use mlprof_train::{DataLoader, EpochContext, Optimizers, Result, TrainModule, TrainerState};

use crate::toy::{Descent, Triple, Watched, trainer};

/// Opens scopes inside the module. They must reach the active profiler.
struct Loud(Triple);

impl TrainModule for Loud {
    type Batch = f64;
    type Optimizer = Descent;

    fn configure_optimizers(&mut self) -> Result<Optimizers<Descent>> {
        self.0.configure_optimizers()
    }

    fn training_step(&mut self, input: &f64, trainer: &mut TrainerState) -> Result<(f64, f64)> {
        let _scope = profile!("forward");
        self.0.training_step(input, trainer)
    }
}

/// Creates a loader whose batches come from a thread.
fn loader(number: usize) -> impl DataLoader<f64> {
    move |_: &EpochContext| {
        let (sender, loaded) = sync_channel(2);
        let load = move || {
            for input in 1..=number {
                drop(profile!("load"));
                if sender.send(Ok(input as f64 / 10.0)).is_err() {
                    return;
                }
            }
        };
        drop(thread::spawn(bound(load)));
        loaded.into_iter()
    }
}

#[test]
fn each_profiler_has_its_own_training_and_no_other() {
    let counts = [3, 5, 8];
    let meet = Arc::new(Barrier::new(counts.len()));
    let trainings = counts.map(|count| {
        let meet = meet.clone();
        thread::spawn(move || {
            let watched = Watched::new();
            let mut trainer = trainer().profiler(watched.profiler.clone());
            meet.wait();
            trainer.fit(&mut Loud(Triple::default()), &loader(count), None).expect("trained");
            watched
        })
    });
    for (training, count) in trainings.into_iter().zip(counts) {
        let watched = training.join().expect("no panic");
        for label in ["run_training_batch", "forward", "load"] {
            assert_eq!(watched.calls(label), 3 * count as u64, "{label} of {count}");
        }
        assert!(watched.report().header.notes.is_empty(), "{:?}", watched.report().header);
    }
}
