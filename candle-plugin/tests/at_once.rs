//! Runs two trainings concurrently in one process, each with its own profiler.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier};
use std::thread;

use candle_core::{Result, Tensor};
use candle_nn::{AdamW, Optimizer, SGD};
use mlprof_candle::prelude::*;
use mlprof_core::{bound, profile};

use common::{HIDDEN_ROW, Net, OUT_ROW, Points, batches, calls, take_turn};

struct Learner(Net);

impl TrainModule for Learner {
    type Batch = Points;
    type Optimizer = CandleOptimizer<SGD>;

    fn configure_optimizers(&mut self) -> mlprof_train::Result<Optimizers<Self::Optimizer>> {
        Ok(CandleOptimizer::new(vars_by_name(&self.0.vars), 0.5)?.into())
    }

    fn training_step(
        &mut self,
        batch: &Points,
        _: &mut TrainerState,
    ) -> mlprof_train::Result<Tensor> {
        let _scope = profile!("loss");
        Ok(self.0.loss(batch)?)
    }
}

/// Trains with the trainer.
fn fit(count: usize, meet: &Barrier) -> Arc<SimpleProfiler> {
    let profiler = Arc::new(SimpleProfiler::new().dirpath(std::env::temp_dir()));
    let mut trainer = Trainer::new().max_epochs(1).progress_bar(false);
    trainer = trainer.profiler(profiler.clone());
    let mut learner = Learner(Net::new().expect("a net"));
    meet.wait();
    let data = batches(count).expect("batches");
    trainer.fit(&mut learner, &data, None).expect("trained");
    profiler
}

/// Trains in a hand-written loop with a loader thread.
fn train(count: usize, meet: &Barrier) -> Result<Arc<SimpleProfiler>> {
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    meet.wait();
    let (sender, loaded) = sync_channel(1);
    let loader = thread::spawn(bound(move || {
        for batch in batches(count).expect("batches") {
            drop(profile!("load"));
            sender.send(batch).expect("the loop is there");
        }
    }));
    let net = Net::new()?;
    let mut optimizer = AdamW::new_lr(vars_by_name(&net.vars), 0.01)?.profile_optimizer();
    for batch in loaded {
        optimizer.backward_step(&net.loss(&batch)?)?;
    }
    loader.join().expect("no panic");
    drop(active);
    Ok(profiler)
}

#[test]
fn each_profiler_has_its_own_training_and_no_other() -> Result<()> {
    let _turn = take_turn();
    for _ in 0..5 {
        let meet = Barrier::new(3);
        let (own, short, long) = thread::scope(|threads| {
            let own = threads.spawn(|| train(42, &meet));
            let short = threads.spawn(|| fit(7, &meet));
            let long = threads.spawn(|| fit(32, &meet));
            let no_panic = "no panic";
            (
                own.join().expect(no_panic),
                short.join().expect(no_panic),
                long.join().expect(no_panic),
            )
        });
        let own = own?;
        for row in ["backward", "Optimizer.step", "load", HIDDEN_ROW, OUT_ROW] {
            assert_eq!(calls(&own, row), 42, "{row}");
        }
        assert_eq!(calls(&own, "loss"), 0);
        for (profiler, count) in [(&short, 7), (&long, 32)] {
            let backward = "[Strategy]SingleDeviceStrategy.backward";
            for row in ["run_training_batch", backward, "loss", HIDDEN_ROW, OUT_ROW] {
                assert_eq!(calls(profiler, row), count, "{row}");
            }
            assert_eq!((calls(profiler, "backward"), calls(profiler, "load")), (0, 0));
        }
        for profiler in [own, short, long] {
            let notes = profiler.snapshot().header.notes;
            assert!(notes.is_empty(), "{notes:?}");
        }
    }
    Ok(())
}
