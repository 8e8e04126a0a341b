//! Batches and epochs that hooks skip.

use mlprof_train::{
    Callback, HookContext, Optimizers, Result, SkipBatch, TrainModule, Trainer, TrainerState,
};

use crate::saved::{Momentum, Saved};
use crate::toy::{Record, Watched};

/// Skips batches with a negative input.
#[derive(Default)]
struct Skipping {
    inner: Saved,
    ends_of_batches: usize,
    validations: usize,
}

impl TrainModule for Skipping {
    type Batch = f64;
    type Optimizer = Momentum;

    fn configure_optimizers(&mut self) -> Result<Optimizers<Momentum>> {
        self.inner.configure_optimizers()
    }

    fn training_step(&mut self, input: &f64, trainer: &mut TrainerState) -> Result<(f64, f64)> {
        if *input < 0.0 {
            return Err(SkipBatch.into());
        }
        self.inner.training_step(input, trainer)
    }

    fn on_train_batch_end(&mut self, _trainer: &mut TrainerState) -> Result<()> {
        self.ends_of_batches += 1;
        Ok(())
    }

    fn on_validation_end(&mut self, _trainer: &mut TrainerState) -> Result<()> {
        self.validations += 1;
        Ok(())
    }
}

fn trainer<M: TrainModule>() -> Trainer<M> {
    Trainer::new().max_epochs(2).progress_bar(false).num_sanity_val_steps(0)
}

#[test]
fn a_batch_without_a_loss_changes_nothing() {
    let watched = Watched::new();
    let mut skipping = Skipping::default();
    let mut trainer = trainer().profiler(watched.profiler.clone());
    let outcome = trainer.fit(&mut skipping, &vec![0.1, -1.0, 0.2, -1.0], None).expect("trained");
    let mut all = Skipping::default();
    self::trainer().fit(&mut all, &vec![0.1, 0.2], None).expect("trained");
    assert_eq!(skipping.inner.weight(), all.inner.weight());
    // As in Lightning, the step counts and its hooks are called.
    assert_eq!((outcome.steps, skipping.ends_of_batches), (8, 8));
    let row = |name: &str| watched.calls(&format!("[LightningModule]Skipping.{name}"));
    assert_eq!((row("optimizer_step"), row("on_before_optimizer_step")), (8, 8));
    assert_eq!((row("on_before_backward"), row("on_after_backward")), (4, 4));
    assert_eq!(watched.calls("Optimizer.step"), 4);
}

#[test]
fn a_skipped_batch_leaves_the_gradients_of_those_it_is_accumulated_with() {
    let fit = |inputs: Vec<f64>, every| {
        let mut skipping = Skipping::default();
        let mut trainer = trainer().accumulate_grad_batches(every);
        trainer.fit(&mut skipping, &inputs, None).expect("trained");
        skipping.inner.weight()
    };
    // The gradient is the mean over both batches.
    assert_eq!(fit(vec![0.2, -1.0], 2), fit(vec![0.2, 0.0], 2));
}

/// Skips the rest of each epoch from its third batch on.
struct SkipRest;

impl<M: TrainModule> Callback<M> for SkipRest {
    fn on_train_batch_start(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        if trainer.batch_index() == Some(2) {
            trainer.skip_epoch();
        }
        Ok(())
    }
}

#[test]
fn the_rest_of_an_epoch_can_be_skipped() {
    let mut skipping = Skipping::default();
    let inputs = vec![0.1; 5];
    let fit = trainer().callback(SkipRest).fit(&mut skipping, &inputs, Some(&inputs));
    let outcome = fit.expect("trained");
    assert_eq!((outcome.epochs, outcome.steps, skipping.inner.inputs.len()), (2, 4, 4));
    assert_eq!(skipping.validations, 0, "as in Lightning");
}

/// Name of a hook, its batch, index and loss, and `true` if it has an optimizer.
type Call = (&'static str, Option<f64>, Option<usize>, Option<f64>, bool);

/// Records the arguments of its hooks.
struct Recorder(Record<Call>);

macro_rules! record {
    ($($name:ident)*) => {$(
        fn $name(
            &mut self,
            context: &mut HookContext<'_, Skipping>,
            trainer: &mut TrainerState,
        ) -> Result<()> {
            let loss = context.loss.map(|(loss, _)| *loss);
            let has_optimizer = context.optimizer.is_some();
            let batch = context.batch.copied();
            let index = trainer.batch_index();
            let call = (stringify!($name), batch, index, loss, has_optimizer);
            self.0.lock().expect("record").push(call);
            // The hook can change the module itself.
            context.module.inner.note.push('.');
            Ok(())
        }
    )*};
}

impl Callback<Skipping> for Recorder {
    record!(setup on_sanity_check_start on_train_batch_start on_before_zero_grad on_before_backward);
    record!(on_before_optimizer_step on_train_batch_end on_validation_batch_end on_fit_end);
}

#[test]
fn callbacks_see_module_batch_loss_index_and_optimizer() {
    let mut skipping = Skipping::default();
    let calls: Record<Call> = Record::default();
    let mut trainer =
        trainer().max_epochs(1).num_sanity_val_steps(1).callback(Recorder(calls.clone()));
    trainer.fit(&mut skipping, &vec![0.5, -1.0], Some(&vec![0.25])).expect("trained");
    let loss = Some((3.0 * 0.5f64).powi(2));
    let expected = [
        ("setup", None, None, None, false),
        ("on_sanity_check_start", None, None, None, true),
        ("on_validation_batch_end", Some(0.25), Some(0), None, true),
        ("on_train_batch_start", Some(0.5), Some(0), None, true),
        ("on_before_zero_grad", Some(0.5), Some(0), loss, true),
        ("on_before_backward", Some(0.5), Some(0), loss, true),
        ("on_before_optimizer_step", Some(0.5), Some(0), loss, true),
        ("on_train_batch_end", Some(0.5), Some(0), loss, true),
        ("on_train_batch_start", Some(-1.0), Some(1), None, true),
        ("on_before_zero_grad", Some(-1.0), Some(1), None, true),
        ("on_before_optimizer_step", Some(-1.0), Some(1), None, true),
        ("on_train_batch_end", Some(-1.0), Some(1), None, true),
        ("on_validation_batch_end", Some(0.25), Some(0), None, true),
        ("on_fit_end", None, None, None, true),
    ];
    assert_eq!(*calls.lock().expect("record"), expected);
    assert_eq!(skipping.inner.note.len(), expected.len());
}
