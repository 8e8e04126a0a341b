//! Number of calls of each hook and action.

use mlprof_train::{DataLoader, EpochContext, LrInterval, Result};

use crate::toy::{Triple, Watched, inputs, trainer};

const NEXT: &str = "[_TrainingEpochLoop].train_dataloader_next";
const VAL_NEXT: &str = "[_EvaluationLoop].val_next";

fn strategy(name: &str) -> String {
    format!("[Strategy]SingleDeviceStrategy.{name}")
}

fn module(name: &str) -> String {
    format!("[LightningModule]Triple.{name}")
}

/// Creates a loader that does not report its length.
fn unsized_inputs(number: usize) -> impl DataLoader<f64> {
    move |_: &EpochContext| (0..number).filter(|_| true).map(|input| Ok(input as f64 / 10.0 + 0.1))
}

#[test]
fn three_epochs_call_everything_as_often_as_they_must() {
    let watched = Watched::new();
    let mut trainer = trainer().profiler(watched.profiler.clone());
    let mut triple = Triple { schedule: Some(LrInterval::Epoch), ..Triple::default() };
    let outcome = trainer.fit(&mut triple, &inputs(7), Some(&inputs(4))).expect("trained");
    assert_eq!((outcome.epochs, outcome.steps), (3, 21));

    let expected = |label: &str| -> u64 {
        let (sanity, name) = match label.strip_prefix("[SanityCheck]") {
            Some(name) => (true, name),
            None => (false, label),
        };
        let name = name.rsplit(['.', ']']).next().unwrap_or(name);
        let validation = name.contains("validation") || name.starts_with("val_");
        let transfers = name.contains("batch_transfer") || name.contains("to_device");
        let per_batch = transfers
            || name.contains("_batch_")
            || name.contains("_next")
            || name.ends_with("_step") && name != "lr_scheduler_step";
        match (name, validation) {
            _ if sanity && per_batch => 2,
            _ if sanity => 1,
            ("step", _) => 21, // Optimizer.step
            ("lr_scheduler_step" | "run_training_epoch" | "train_dataloader", _) => 3,
            (_, _) if transfers => 3 * (7 + 4),
            (_, true) if per_batch => 3 * 4,
            (_, true) => 3,
            ("on_train_epoch_start" | "on_train_epoch_end", _) => 3,
            (
                "run_training_batch"
                | "backward"
                | "read_loss"
                | "optimizer_zero_grad"
                | "on_before_zero_grad"
                | "on_before_backward"
                | "on_after_backward"
                | "configure_gradient_clipping",
                _,
            ) => 21,
            (_, false) if per_batch => 21,
            _ => 1,
        }
    };
    let report = watched.report();
    for row in &report.actions {
        assert_eq!(row.calls, expected(&row.label()), "{}", row.label());
    }
    let labels: Vec<_> = report.actions.iter().map(|row| row.label()).collect();
    assert_eq!(labels.len(), 61, "{labels:#?}");
    for name in ["prepare_data", "setup", "configure_optimizers", "on_fit_end", "teardown"] {
        assert_eq!(watched.calls(&module(name)), 1, "{name}");
    }
    assert!(report.open.is_empty(), "{:?}", report.open);
    assert!(watched.delivered("fit").contains("FIT Profiler Report"));
}

#[test]
fn data_of_unknown_size_is_asked_once_more() {
    let watched = Watched::new();
    let mut trainer = trainer().profiler(watched.profiler.clone());
    let mut triple = Triple::default();
    trainer.fit(&mut triple, &unsized_inputs(7), Some(&unsized_inputs(4))).expect("trained");
    assert_eq!(watched.calls(NEXT), 3 * 8);
    assert_eq!(watched.calls(VAL_NEXT), 3 * 5);
    assert_eq!(watched.calls("[SanityCheck][_EvaluationLoop].val_next"), 2);
    assert_eq!(triple.losses.len(), 21);
}

#[test]
fn limits_are_kept() {
    let watched = Watched::new();
    let mut trainer = trainer()
        .profiler(watched.profiler.clone())
        .limit_train_batches(0.5)
        .limit_val_batches(3)
        .num_sanity_val_steps(0);
    let mut triple = Triple::default();
    trainer.fit(&mut triple, &inputs(7), Some(&unsized_inputs(4))).expect("trained");
    assert_eq!(watched.calls(NEXT), 3 * 3);
    assert_eq!(watched.calls(VAL_NEXT), 3 * 3);
    assert_eq!(watched.calls("[SanityCheck][_EvaluationLoop].val_next"), 0);
}

#[test]
fn the_sanity_check_sees_no_more_than_validation_does() {
    let watched = Watched::new();
    let mut trainer = trainer().profiler(watched.profiler.clone()).limit_val_batches(1);
    trainer.fit(&mut Triple::default(), &inputs(2), Some(&inputs(4))).expect("trained");
    assert_eq!(watched.calls("[SanityCheck][_EvaluationLoop].val_next"), 1);
}

#[test]
fn validation_comes_at_its_interval() {
    for (interval, expected) in [
        (mlprof_train::Portion::from(3), vec![3, 6, 10, 13]),
        (mlprof_train::Portion::from(0.25), vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
        (mlprof_train::Portion::from(1.0), vec![7, 14]),
    ] {
        let mut triple = Triple::default();
        let mut trainer =
            trainer().max_epochs(2).num_sanity_val_steps(0).val_check_interval(interval);
        trainer.fit(&mut triple, &inputs(7), Some(&inputs(2))).expect("trained");
        let seen: Vec<_> = triple.validated.iter().map(|(_, batches)| *batches).collect();
        assert_eq!(seen, expected, "{interval:?}");
    }
}

#[test]
fn accumulation_steps_less_often_and_at_the_end_of_the_epoch() {
    for (data, next) in
        [(Box::new(inputs(7)) as Box<dyn DataLoader<f64>>, 7), (Box::new(unsized_inputs(7)), 8)]
    {
        let watched = Watched::new();
        let mut trainer =
            trainer().max_epochs(1).accumulate_grad_batches(3).profiler(watched.profiler.clone());
        let mut triple = Triple { schedule: Some(LrInterval::Step), ..Triple::default() };
        let outcome = trainer.fit(&mut triple, &*data, None).expect("trained");
        assert_eq!(outcome.steps, 3);
        assert_eq!(watched.calls(NEXT), next);
        assert_eq!(watched.calls(&module("optimizer_step")), 3);
        assert_eq!(watched.calls("Optimizer.step"), 3);
        assert_eq!(watched.calls(&module("lr_scheduler_step")), 3);
        assert_eq!(watched.calls(&module("optimizer_zero_grad")), 3);
        assert_eq!(watched.calls(&strategy("training_step")), 7);
        assert_eq!(watched.calls(&strategy("backward")), 7);
        // The forward pass of a batch without an optimizer step is directly inside the batch's
        // action.
        assert_eq!(watched.calls("run_training_batch"), 7);
    }
}

#[test]
fn max_steps_ends_in_the_middle_of_an_epoch() {
    let watched = Watched::new();
    let mut trainer = trainer().max_epochs(10).max_steps(10).profiler(watched.profiler.clone());
    let outcome = trainer.fit(&mut Triple::default(), &inputs(7), None).expect("trained");
    assert_eq!((outcome.epochs, outcome.steps), (1, 10));
    assert_eq!(outcome.stopped, mlprof_train::StopReason::MaxSteps);
    assert_eq!(watched.calls(NEXT), 10);
    assert_eq!(watched.calls(&module("on_train_epoch_end")), 2);
}

#[test]
fn on_an_accelerator_the_loss_is_read_now_and_then() {
    let watched = Watched::new();
    let mut trainer =
        trainer().max_epochs(2).log_every_n_steps(3).profiler(watched.profiler.clone());
    let mut triple = Triple { waits: true, ..Triple::default() };
    let outcome = trainer.fit(&mut triple, &inputs(7), None).expect("trained");
    // The loss is read after the 3rd, the 6th and the last batch of each epoch.
    assert_eq!(watched.calls(&strategy("read_loss")), 2 * 3);
    assert_eq!(outcome.loss, triple.losses.last().copied());
}

#[test]
fn each_stage_has_a_report_of_its_own() {
    let watched = Watched::new();
    let mut trainer = trainer().profiler(watched.profiler.clone());
    let mut triple = Triple::default();
    trainer.fit(&mut triple, &inputs(3), None).expect("trained");
    trainer.validate(&mut triple, &inputs(2)).expect("validated");
    assert_eq!(watched.calls(VAL_NEXT), 2);
    assert_eq!(watched.calls(NEXT), 0, "the fit's rows are gone");
    let outcome = trainer.test(&mut triple, &inputs(4)).expect("tested");
    assert_eq!(outcome.batches, 4);
    assert!(outcome.metrics.contains_key("test_loss"));
    trainer.predict(&mut triple, &inputs(5)).expect("predicted");
    for stage in ["fit", "validate", "test", "predict"] {
        let title = format!("{} Profiler Report", stage.to_uppercase());
        assert!(watched.delivered(stage).contains(&title), "{stage}");
    }
}

#[test]
fn loaders_hear_of_epoch_seed_and_rank() -> Result<()> {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let record = seen.clone();
    let loader = move |context: &EpochContext| {
        record.lock().expect("record").push(*context);
        inputs(2).into_iter().map(Ok)
    };
    let run = mlprof_core::RunContext::default().with_rank(1, 4);
    let mut trainer = trainer().max_epochs(2).seed(7).run_context(run);
    trainer.fit(&mut Triple::default(), &loader, None)?;
    let seen: Vec<_> = seen
        .lock()
        .expect("record")
        .iter()
        .map(|context| (context.epoch, context.seed, context.rank, context.world_size))
        .collect();
    assert_eq!(seen, [(0, 7, 1, 4), (1, 7, 1, 4)]);
    Ok(())
}

#[test]
fn predictions_are_returned_in_order() {
    let watched = Watched::new();
    let mut trainer = trainer().profiler(watched.profiler.clone());
    let mut triple = Triple::default();
    let (predictions, outcome) = trainer
        .predict_with(&mut triple, &inputs(3), |triple, input, trainer| {
            Ok((trainer.batch_index(), triple.weight.get() + input))
        })
        .expect("predicted");
    assert_eq!(predictions, [(Some(0), 0.1), (Some(1), 0.2), (Some(2), 0.3)]);
    assert_eq!(outcome.batches, 3);
    assert_eq!(watched.calls(&strategy("predict_step")), 3);
    let error = trainer.predict_with(&mut triple, &inputs(3), |_, input, _| {
        if *input > 0.15 { Err("no weights".into()) } else { Ok(()) }
    });
    let error = format!("{:?}", error.expect_err("it failed"));
    assert_eq!(error, "predict_step failed at batch 1 of predict: no weights");
}
