//! Training that resumes from a checkpoint.

use std::path::{Path, PathBuf};

use mlprof_train::{
    Callback, Checkpoint, FitOutcome, HookContext, LrInterval, ModelCheckpoint, Result, SavedState,
    TrainError, TrainModule, Trainer, TrainerState,
};

use crate::saved::{Saved, names, shuffled};
use crate::toy;

fn trainer(epochs: usize) -> Trainer<Saved> {
    Trainer::new().max_epochs(epochs).progress_bar(false).seed(7)
}

fn fit(trainer: &mut Trainer<Saved>, module: &mut Saved, from: Option<&Path>) -> FitOutcome {
    let validation = vec![1.0, 2.0];
    let outcome = match from {
        Some(path) => trainer.resume(module, path, &shuffled, Some(&validation)),
        None => trainer.fit(module, &shuffled, Some(&validation)),
    };
    outcome.expect("trained")
}

/// Trains four epochs without interruption, and again from each checkpoint of that run. The run
/// saves a checkpoint every few batches and after each epoch.
fn resumes_at_every_checkpoint(
    schedule: Option<LrInterval>,
    change: impl Fn(Trainer<Saved>) -> Trainer<Saved>,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let save_every = Some((3, folder.path().to_owned()));
    let mut whole = Saved { schedule, save_every, note: "kept".into(), ..Saved::default() };
    let trainer = |epochs| change(trainer(epochs));
    let mut saving = trainer(4).checkpoint_dir(folder.path());
    let outcome = fit(&mut saving, &mut whole, None);
    let names = names(folder.path());
    assert_eq!(names.len(), 4 * 4, "{names:?}");
    for name in names {
        let path = folder.path().join(&name);
        let mut resumed = Saved { schedule, ..Saved::default() };
        // The resumed training must use the checkpoint's seed instead of this one.
        let mut trainer = trainer(4).seed(1);
        assert_eq!(fit(&mut trainer, &mut resumed, Some(&path)), outcome, "{name}");
        assert_eq!(resumed.weight().to_bits(), whole.weight().to_bits(), "{name}");
        let left = resumed.inputs.len();
        assert_eq!(resumed.inputs, whole.inputs[whole.inputs.len() - left..], "{name}");
        assert_eq!(resumed.rates, whole.rates[whole.rates.len() - left..], "{name}");
        assert_eq!(resumed.note, "kept", "{name}");
    }
}

#[test]
fn a_resumed_training_is_the_one_that_was_not_interrupted() {
    resumes_at_every_checkpoint(None, |trainer| trainer);
    resumes_at_every_checkpoint(Some(LrInterval::Epoch), |trainer| trainer);
    resumes_at_every_checkpoint(Some(LrInterval::Step), |trainer| trainer);
}

/// Checks that this also works from checkpoints that callbacks save before the schedule has seen
/// the metric of the epoch.
#[test]
fn a_schedule_that_follows_a_metric_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let saving = ModelCheckpoint::new().dirpath(folder.path()).save_top_k(None);
    let save_every = Some((4, folder.path().to_owned()));
    let mut whole = Saved { plateau: true, save_every, ..Saved::default() };
    fit(&mut trainer(6).callback(saving), &mut whole, None);
    assert!(whole.rates.last() < whole.rates.first(), "{:?}", whole.rates);
    for name in names(folder.path()) {
        let mut resumed = Saved { plateau: true, ..Saved::default() };
        fit(&mut trainer(6), &mut resumed, Some(&folder.path().join(&name)));
        let left = resumed.rates.len();
        assert_eq!(resumed.rates, whole.rates[whole.rates.len() - left..], "{name}");
        assert_eq!(resumed.weight().to_bits(), whole.weight().to_bits(), "{name}");
    }
}

#[test]
fn limits_and_validation_inside_an_epoch_do_not_change_where_it_goes_on() {
    resumes_at_every_checkpoint(None, |trainer| trainer.limit_train_batches(9));
    resumes_at_every_checkpoint(None, |trainer| trainer.val_check_interval(3));
}

/// Checks that these batches run again, because the gradients of an incomplete accumulation are not
/// in a checkpoint.
#[test]
fn batches_that_were_only_accumulated_are_learned_from_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let save_every = Some((3, folder.path().to_owned()));
    let mut whole = Saved { save_every, ..Saved::default() };
    fit(&mut trainer(2).accumulate_grad_batches(2), &mut whole, None);
    for name in names(folder.path()) {
        let mut resumed = Saved::default();
        let path = folder.path().join(&name);
        fit(&mut trainer(2).accumulate_grad_batches(2), &mut resumed, Some(&path));
        assert_eq!(resumed.weight().to_bits(), whole.weight().to_bits(), "{name}");
    }
}

#[test]
fn a_second_run_leaves_the_checkpoints_of_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |module: &mut Saved| {
        fit(&mut trainer(1).checkpoint_dir(folder.path()), module, None);
    };
    let mut module = Saved::default();
    run(&mut module);
    let first = std::fs::read(folder.path().join("epoch=0-step=10.safetensors")).expect("saved");
    run(&mut module);
    run(&mut module);
    let files = ["epoch=0-step=10-v1", "epoch=0-step=10-v2", "epoch=0-step=10"];
    assert_eq!(names(folder.path()), files.map(|stem| format!("{stem}.safetensors")));
    let now = std::fs::read(folder.path().join("epoch=0-step=10.safetensors")).expect("saved");
    assert_eq!(first, now);

    // The same rule applies to modules that write their own files.
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        let mut trainer = toy::trainer().max_epochs(1).checkpoint_dir(folder.path());
        trainer.fit(&mut toy::Triple::default(), &toy::inputs(2), None).expect("trained");
    }
    assert_eq!(names(folder.path()), ["epoch=0-step=2-v1.txt", "epoch=0-step=2.txt"]);
}

/// Counts batches, and can reject its state.
#[derive(Default)]
struct Counter {
    batches: u64,
    refuses: bool,
    /// Batch counts after each batch, shared with the test.
    seen: std::sync::Arc<std::sync::Mutex<Vec<u64>>>,
}

impl<M: TrainModule> Callback<M> for Counter {
    fn on_train_batch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        _trainer: &mut TrainerState,
    ) -> Result<()> {
        self.batches += 1;
        self.seen.lock().expect("seen").push(self.batches);
        Ok(())
    }

    fn state(&self) -> SavedState {
        let mut state = SavedState::new();
        state.set("batches", self.batches);
        state
    }

    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        if std::mem::take(&mut self.refuses) {
            return Err("I do not want it".into());
        }
        self.batches = state.get("batches")?;
        Ok(())
    }
}

#[test]
fn state_of_callbacks_is_restored_each_to_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let with = |counters: [Counter; 2]| {
        counters.into_iter().fold(trainer(2), |trainer, counter| trainer.callback(counter))
    };
    let counters = [0, 100].map(|batches| Counter { batches, ..Counter::default() });
    fit(&mut with(counters).checkpoint_dir(folder.path()), &mut Saved::default(), None);
    let counters = [Counter::default(), Counter::default()];
    let seen = [counters[0].seen.clone(), counters[1].seen.clone()];
    let path = folder.path().join("epoch=0-step=10.safetensors");
    fit(&mut with(counters), &mut Saved::default(), Some(&path));
    let first = seen.map(|seen| seen.lock().expect("seen")[0]);
    assert_eq!(first, [11, 111]);
}

/// Saves a value of the module in checkpoints, and returns it to the module.
struct Notes;

impl Callback<Saved> for Notes {
    fn on_save_checkpoint(
        &mut self,
        checkpoint: &mut Checkpoint,
        context: &mut HookContext<'_, Saved>,
        _trainer: &mut TrainerState,
    ) -> Result<()> {
        checkpoint.section_mut("notes").set("weight", context.module.weight());
        Ok(())
    }

    fn on_load_checkpoint(
        &mut self,
        checkpoint: &Checkpoint,
        context: &mut HookContext<'_, Saved>,
        _trainer: &mut TrainerState,
    ) -> Result<()> {
        let notes = checkpoint.section("notes").ok_or("no notes")?;
        context.module.inputs.push(notes.get("weight")?);
        Ok(())
    }
}

#[test]
fn callbacks_see_the_module_when_a_checkpoint_is_saved_and_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut saved = Saved::default();
    fit(&mut trainer(1).callback(Notes).checkpoint_dir(folder.path()), &mut saved, None);
    let path = folder.path().join("epoch=0-step=10.safetensors");
    let mut resumed = Saved::default();
    fit(&mut trainer(1).callback(Notes), &mut resumed, Some(&path));
    assert_eq!(resumed.inputs, [saved.weight()]);
}

/// Returns the error of a fit from this file, which must leave module and callbacks unchanged.
fn refused(path: &Path) -> String {
    let mut module = Saved { note: "mine".into(), ..Saved::default() };
    module.set_weight(0.25);
    let counter = Counter { batches: 5, ..Counter::default() };
    let seen = counter.seen.clone();
    let refusing = Counter { refuses: path.ends_with("refused"), ..Counter::default() };
    let mut trainer = trainer(1).callback(counter).callback(refusing);
    let error = trainer.resume(&mut module, path, &shuffled, None);
    let error = error.expect_err("refused");
    assert!(matches!(error, TrainError::Resume { .. }), "{error}");
    assert_eq!((module.weight(), module.note.as_str()), (0.25, "mine"));
    assert!(module.inputs.is_empty());
    trainer.fit(&mut module, &shuffled, None).expect("trained");
    assert_eq!(seen.lock().expect("seen")[0], 6, "its state is what it was");
    let error = format!("{error:?}");
    assert!(error.starts_with("cannot resume from ") && !error.contains('\n'), "{error}");
    error
}

#[test]
fn damaged_and_foreign_checkpoints_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let trainer = trainer(1).callback(Counter::default()).callback(Counter::default());
    fit(&mut trainer.checkpoint_dir(folder.path()), &mut Saved::default(), None);
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let bytes = std::fs::read(path("epoch=0-step=10.safetensors")).expect("saved");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(path(name), bytes).expect("written");
        path(name)
    };
    let mut flipped = bytes.clone();
    *flipped.last_mut().expect("bytes") ^= 1;
    assert!(refused(&write("flipped", &flipped)).contains("damaged"));
    assert!(refused(&write("cut", &bytes[..bytes.len() - 1])).contains("damaged"));
    assert!(refused(&write("empty", b"")).contains("damaged"));
    assert!(refused(&write("text", b"3.25")).contains("damaged"));
    assert!(refused(&path("missing")).contains("No such file") || cfg!(windows));
    assert!(refused(folder.path()).contains("not a regular file"));
    assert!(refused(&write("refused", &bytes)).contains("I do not want it"));

    let change = |name: &str, change: &dyn Fn(&mut Checkpoint)| {
        let mut checkpoint = Checkpoint::read(&path("epoch=0-step=10.safetensors")).expect("read");
        change(&mut checkpoint);
        checkpoint.write(&path(name)).expect("written");
        refused(&path(name))
    };
    let none = change("no weights", &|it| *it.section_mut("weights") = SavedState::new());
    assert!(none.contains("it has no weights"), "{none}");
    let other = change("other", &|it| {
        let tensor = it.weights().expect("weights").tensor("weight").expect("one").clone();
        let weights = it.section_mut("weights");
        *weights = SavedState::new();
        weights.set_tensor("bias", tensor);
    });
    assert!(other.contains("it has no tensor \"weight\""), "{other}");
    let epoch = change("epoch", &|it| it.section_mut("trainer").set("epoch", "first"));
    assert!(epoch.contains("its value \"epoch\" is invalid: \"first\""), "{epoch}");
    let newer = change("newer", &|it| it.section_mut("trainer").set("version", 99));
    assert!(newer.contains("it has format version 99"), "{newer}");
    let hidden = change("hidden", &|it| {
        let optimizer = it.section_mut("optimizer");
        *optimizer = SavedState::new();
        optimizer.set("unavailable", "it shows nothing");
    });
    assert!(hidden.contains("it shows nothing"), "{hidden}");
}

#[test]
fn a_loader_that_has_become_shorter_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let save_every = Some((6, folder.path().to_owned()));
    fit(&mut trainer(1), &mut Saved { save_every, ..Saved::default() }, None);
    let path = folder.path().join("epoch=0-batch=6.safetensors");
    let mut module = Saved::default();
    let mut trainer = trainer(1);
    let error = trainer.resume(&mut module, &path, &vec![0.1; 5], None);
    let error = format!("{:?}", error.expect_err("five batches"));
    assert!(error.contains("was saved after 6 batches of this epoch"), "{error}");
}

#[test]
fn a_training_that_was_over_is_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut module = Saved::default();
    let outcome = fit(&mut trainer(2).checkpoint_dir(folder.path()), &mut module, None);
    let path = folder.path().join("epoch=1-step=20.safetensors");
    let mut resumed = Saved::default();
    assert_eq!(fit(&mut trainer(2), &mut resumed, Some(&path)), outcome);
    assert!(resumed.inputs.is_empty() && resumed.weight() == module.weight());
}
