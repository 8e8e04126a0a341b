use super::tests::{Numbers, OnDevice, tell, with};
use super::*;
use crate::ProfilerExt;
use crate::report::numerics::{FaultInterval, RecordedTensor};
use mlprof_events::ObservedTensor;

const LAYERS: [&str; 3] = ["[module]Linear: l1", "[module]Linear: l2", "[module]Linear: l3"];

/// Simulates a step through three layers. Their gradients arrive in alphabetical order, as with
/// candle.
fn step(gradients: &[(&str, f32)]) {
    for layer in LAYERS {
        tell(TensorRole::Output, layer, &[1.0]);
    }
    tell(TensorRole::Loss, "loss", &[1.0]);
    for (name, gradient) in gradients {
        tell(TensorRole::Gradient, name, &[*gradient]);
        tell(TensorRole::Parameter, name, &[1.0]);
    }
    for (name, gradient) in gradients {
        tell(TensorRole::Update, name, &[*gradient]);
    }
}

const MASKED: [(&str, f32); 4] =
    [("l1.bias", f32::NAN), ("l1.weight", f32::NAN), ("l2.bias", f32::NAN), ("l3.bias", 1.0)];

/// A layer masks non-finite values, so all outputs and the loss are finite.
#[test]
fn of_gradients_that_are_not_finite_the_first_one_backwards_is_named() {
    // The test covers steps that are only watched (0) and recorded steps (1).
    for every in [0, 1] {
        let report = with(NumericsProfiler::new().every(every).stop_on_nan(true), |profiler| {
            step(&[("l1.bias", 1.0), ("l1.weight", 1.0), ("l2.bias", 1.0), ("l3.bias", 1.0)]);
            profiler.step();
            assert_eq!(profiler.reason_to_stop(), None);
            step(&MASKED);
            let reason = profiler.reason_to_stop().expect("it is known before the step ends");
            let expected = "in step 1 the gradient of l2.bias is not finite: 1 NaN of 1 numbers. The fault began in the backward pass of \
                            [module]Linear: l2, or between [module]Linear: l3 (its gradients are finite) and it";
            assert_eq!(reason, expected, "{every}");
            profiler.step();
        });
        let first = report.first_not_finite.expect("it is seen");
        assert_eq!((&*first.name, first.step), ("l2.bias", 1));
        assert_eq!(report.not_finite, 6, "three gradients, and what became of three parameters");
    }
}

#[test]
fn a_loss_that_is_finite_is_the_end_of_the_interval_where_all_gradients_are_not() {
    let all = MASKED.map(|(name, _)| (name, f32::NAN));
    let report = with(NumericsProfiler::new().every(0), |_| step(&all));
    let said = report.first_not_finite.expect("it is seen").what_is_not_finite();
    let expected = "The fault began in the backward pass, between the loss, which was finite, and [module]Linear: l3";
    assert!(said.contains("the gradient of l3.bias") && said.ends_with(expected), "{said}");
}

#[test]
fn without_layers_it_is_said_that_the_order_of_gradients_is_not_known() {
    let report = with(NumericsProfiler::new().every(0), |_| {
        for (name, gradient) in MASKED {
            tell(TensorRole::Gradient, name, &[gradient]);
        }
    });
    let said = report.first_not_finite.expect("it is seen").what_is_not_finite();
    let expected = "The origin of the fault is unknown: the gradients of l1.bias, l1.weight and l2.bias are not finite, those of \
                    l3.bias are finite. Wrap layers with .profile_layer(…) to record their order";
    assert!(said.ends_with(expected), "{said}");
}

fn tell_given(name: &str, given: &[f32], numbers: &[f32]) {
    let (tensor, input) = (Numbers::there(numbers), Numbers::there(given));
    let role = TensorRole::Output;
    hook::tensor(&ObservedTensor { role, name, tensor: &tensor, input: Some(&input) });
}

#[test]
fn code_between_two_layers_is_named_by_both() {
    let report = with(NumericsProfiler::new().every(0), |profiler| {
        tell_given(LAYERS[0], &[1.0], &[0.5]);
        tell_given(LAYERS[1], &[f32::NAN], &[f32::NAN]);
        tell_given(LAYERS[2], &[f32::NAN], &[f32::NAN]);
        // Neither tensor hides the origin: the first has an unknown input, and the second comes
        // later.
        tell(TensorRole::Loss, "loss", &[f32::NAN]);
        tell_given("[module]Linear: other", &[0.0], &[f32::NEG_INFINITY]);
        profiler.step();
    });
    let first = report.first_not_finite.expect("it is seen");
    let expected = "in step 0 the output of [module]Linear: l2 is not finite: 1 NaN of 1 numbers. Its input was already not finite. The fault \
                    began between [module]Linear: l1 (its output was finite) and [module]Linear: l2";
    assert_eq!(first.what_is_not_finite(), expected);
    let notes = &report.header.notes;
    let is_advice = |note: &String| {
        note.starts_with("the op that created NaN or infinity is unknown: ")
            && note.contains("mlprof run --ops")
            && note.contains("--numerics -- …")
    };
    assert_eq!(notes.iter().filter(|note| is_advice(note)).count(), 1, "{notes:?}");
}

#[test]
fn a_loss_that_is_not_finite_is_told_with_the_last_layer() {
    let report = with(NumericsProfiler::new().every(0), |_| {
        tell(TensorRole::Output, LAYERS[2], &[0.5]);
        tell(TensorRole::Loss, "loss", &[f32::INFINITY]);
    });
    let said = report.first_not_finite.expect("it is seen").what_is_not_finite();
    let expected =
        "The fault began between [module]Linear: l3 (its output was finite) and the loss";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn an_update_is_told_as_the_optimizers_where_the_gradient_was_finite() {
    let report = with(NumericsProfiler::new().every(0), |profiler| {
        tell(TensorRole::Gradient, "weight", &[1.0]);
        tell(TensorRole::Update, "weight", &[f32::NAN]);
        profiler.step();
    });
    let first = report.first_not_finite.expect("it is seen");
    assert_eq!(first.interval.as_deref(), Some(&FaultInterval::Update));
}

/// Device results arrive at the end of the step, in the order in which the tensors were reported.
#[test]
fn gradients_on_a_device_are_named_in_backward_order_and_without_a_line() {
    let report = with(NumericsProfiler::new().every(0), |profiler| {
        let on_device = |role, name: &str, numbers: &[f32]| {
            let tensor = OnDevice::new(numbers);
            hook::tensor(&ObservedTensor { role, name, tensor: &tensor, input: None });
        };
        for layer in LAYERS {
            on_device(TensorRole::Output, layer, &[1.0]);
        }
        on_device(TensorRole::Loss, "loss", &[1.0]);
        for (name, gradient) in MASKED {
            let gradient = if gradient.is_nan() { f32::INFINITY } else { gradient };
            on_device(TensorRole::Gradient, name, &[gradient, 1.0]);
        }
        profiler.step();
    });
    let first: RecordedTensor = report.first_not_finite.expect("it is seen");
    assert_eq!((&*first.name, first.location.as_deref()), ("l2.bias", None));
    assert!(
        matches!(first.interval.as_deref(), Some(FaultInterval::Backward { after: Some(after), .. })
        if after.name == LAYERS[2])
    );
}

/// A rerun of a batch has its own order of tensors.
#[test]
fn a_batch_that_is_run_again_names_the_interval_too() {
    let report = with(NumericsProfiler::new().every(0).rerun(true), |profiler| {
        step(&MASKED);
        assert!(profiler.begin_rerun());
        step(&MASKED);
        profiler.end_rerun(None);
    });
    let rerun = report.rerun.expect("it was run again");
    let first = rerun.first_not_finite.expect("it is not finite");
    assert_eq!((&*first.name, first.interval.is_some()), ("l2.bias", true));
    assert_eq!(report.first_not_finite.expect("it is seen").name, first.name);
}

#[test]
fn a_loop_without_a_stage_has_its_own_duration_and_a_note_about_steps() {
    let before = std::time::Instant::now();
    let profiler = std::sync::Arc::new(NumericsProfiler::new().every(1));
    let active = crate::activate(profiler.clone());
    for _batch in 0..2 {
        tell(TensorRole::Output, LAYERS[0], &[1.0]);
        tell(TensorRole::Loss, "loss", &[1.0]);
    }
    let report = profiler.snapshot();
    // The clock of a recording may begin with the machine, not with the profiler.
    assert!(report.header.wall_seconds <= before.elapsed().as_secs_f64() * 1.01 + 0.001);
    let notes = report.header.notes.join("\n");
    assert!(notes.contains("no steps were reported") && !notes.contains("no gradient"), "{notes}");
    profiler.step();
    let notes = profiler.snapshot().header.notes.join("\n");
    assert!(!notes.contains("no steps") && notes.contains("no gradient was observed"), "{notes}");
    drop(active);
}
