use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::report::numerics::{RecordHeader, RecordedTensor};
use crate::{ProfilerExt, TensorProfiler, activate, hook};
use mlprof_events::{
    NumberReader, ObservedTensor, Reduced, ReducedNumbers, Reduction, TensorNumbers,
};

/// A tensor in host memory, or on a device.
pub(super) struct Numbers {
    numbers: Vec<f32>,
    is_there: bool,
}

impl Numbers {
    pub(super) fn there(numbers: &[f32]) -> Self {
        Self { numbers: numbers.to_vec(), is_there: true }
    }
}

impl TensorNumbers for Numbers {
    fn element_type(&self) -> &'static str {
        "f32"
    }

    fn shape(&self) -> Vec<u64> {
        vec![self.numbers.len() as u64]
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        if self.is_there {
            reader.read_f32(&self.numbers);
        }
        self.is_there
    }
}

pub(super) fn tell(role: TensorRole, name: &str, numbers: &[f32]) {
    let tensor = Numbers::there(numbers);
    hook::tensor(&ObservedTensor { role, name, tensor: &tensor, input: None });
}

pub(super) fn with(
    profiler: NumericsProfiler,
    run: impl FnOnce(&NumericsProfiler),
) -> NumericsReport {
    let profiler = Arc::new(profiler);
    let active = activate(profiler.clone());
    run(&profiler);
    drop(active);
    profiler.snapshot()
}

#[test]
fn every_so_many_steps_are_recorded_and_nothing_of_a_pause_or_a_stage_inside() {
    let report = with(NumericsProfiler::new().every(3), |profiler| {
        profiler.setup(Stage::Fit, &RunContext::default());
        profiler.setup(Stage::SanityCheck, &RunContext::default());
        tell(TensorRole::Output, "sanity", &[1.0]);
        profiler.step();
        profiler.teardown(Some(Stage::SanityCheck));
        for step in 0..7 {
            tell(TensorRole::Output, "layer", &[step as f32, 2.0]);
            profiler.step();
            profiler.pause();
            tell(TensorRole::Output, "validation", &[f32::NAN]);
            profiler.step();
            profiler.resume();
        }
        profiler.teardown(Some(Stage::Fit));
    });
    assert_eq!((report.steps, report.recorded_steps, report.not_finite), (7, 3, 0));
    let [row] = &report.tensors[..] else { panic!("{:?}", report.tensors) };
    assert_eq!((&*row.name, row.tensors, row.all.count), ("layer", 3, 6));
    assert_eq!((row.first.minimum, row.last.maximum), (Some(0.0), Some(6.0)));
    assert_eq!((row.all.minimum, row.all.maximum, row.all.mean), (Some(0.0), Some(6.0), Some(2.5)));
}

#[test]
fn a_step_that_is_not_recorded_is_watched_and_the_next_one_recorded() {
    let run = |profiler: NumericsProfiler| {
        with(profiler, |profiler| {
            for step in 0..5 {
                let number = if step == 2 { f32::INFINITY } else { 1.0 };
                tell(TensorRole::Output, "layer", &[number, 0.0]);
                tell(TensorRole::Gradient, "weight", &[number]);
                assert_eq!(
                    profiler.reason_to_stop().is_some(),
                    step >= 2 && profiler.settings.stops
                );
                profiler.step();
            }
        })
    };
    let report = run(NumericsProfiler::new().every(0).stop_on_nan(true));
    let first = report.first_not_finite.expect("it is seen");
    assert_eq!((first.step, &*first.name), (2, "layer"));
    assert_eq!((report.not_finite, report.recorded_steps), (2, 1));
    let sentence = "in step 2 the output of layer is not finite: 1 infinite of 2 numbers";
    assert_eq!(first.what_is_not_finite(), sentence);
    let unwatched = run(NumericsProfiler::new().every(0).watch(false));
    assert_eq!((unwatched.first_not_finite, unwatched.recorded_steps), (None, 0));
}

#[test]
fn updates_are_differences_and_those_that_are_too_large_are_a_trouble() {
    let report = with(NumericsProfiler::new().every(1), |profiler| {
        for _ in 0..2 {
            let matrix = |number: f32| Numbers { numbers: vec![number; 4], is_there: true };
            struct Matrix(Numbers);
            impl TensorNumbers for Matrix {
                fn element_type(&self) -> &'static str {
                    "f32"
                }
                fn shape(&self) -> Vec<u64> {
                    vec![2, 2]
                }
                fn read(&self, reader: &mut dyn NumberReader) -> bool {
                    self.0.read(reader)
                }
            }
            let tell = |role, tensor: Matrix| {
                hook::tensor(&ObservedTensor {
                    role,
                    name: "weight",
                    tensor: &tensor,
                    input: None,
                });
            };
            tell(TensorRole::Parameter, Matrix(matrix(1.0)));
            tell(TensorRole::Update, Matrix(matrix(1.5)));
            profiler.step();
        }
    });
    let [parameter, update] = &report.tensors[..] else { panic!("{:?}", report.tensors) };
    assert_eq!((parameter.role, parameter.last.l2_norm), (TensorRole::Parameter, 2.0));
    assert_eq!((update.role, update.last.l2_norm), (TensorRole::Update, 1.0));
    assert_eq!(update.last.mean, Some(0.5));
    let [trouble] = &report.troubles[..] else { panic!("{:?}", report.troubles) };
    assert_eq!(trouble.kind, numerics::TroubleKind::LargeUpdate);
    assert!(trouble.sentence.contains("5.0e-1"), "{}", trouble.sentence);
}

#[test]
fn the_record_has_a_header_and_every_step_as_soon_as_it_ends() {
    let directory = tempfile::tempdir().expect("a folder");
    let profiler = NumericsProfiler::new().every(1).dirpath(directory.path()).filename("run");
    let path = directory.path().join("fit-run.numerics.jsonl");
    let lines = || -> Vec<String> {
        let text = std::fs::read_to_string(&path).expect("a record");
        text.lines().map(str::to_owned).collect()
    };
    let report = with(profiler, |profiler| {
        profiler.setup(Stage::Fit, &RunContext::default());
        tell(TensorRole::Output, "layer", &[1.0, f32::NAN]);
        tell(TensorRole::Output, "layer", &[2.0]);
        profiler.step();
        assert_eq!(lines().len(), 3, "the run continues");
        tell(TensorRole::Loss, "loss", &[0.5]);
        profiler.teardown(Some(Stage::Fit));
    });
    assert_eq!(report.files, [path.display().to_string()]);
    let lines = lines();
    let header: RecordHeader = RecordHeader::from_line(&lines[0]).expect("a header");
    assert_eq!((header.numerics_version, header.stage), (2, Some(Stage::Fit)));
    let rows: Vec<RecordedTensor> =
        lines[1..].iter().map(|line| RecordedTensor::from_line(line).expect("a tensor")).collect();
    let place = |row: &RecordedTensor| (row.step, row.role, row.call);
    let expected =
        [(0, TensorRole::Output, 0), (0, TensorRole::Output, 1), (1, TensorRole::Loss, 0)];
    assert_eq!(rows.iter().map(place).collect::<Vec<_>>(), expected);
    assert_eq!((rows[0].sample.clone(), rows[0].statistics.nans), (vec![Some(1.0), None], 1));
    assert!(rows[2].shape.is_empty());
}

#[test]
fn a_record_that_cannot_be_written_costs_nothing_but_itself() {
    let directory = tempfile::tempdir().expect("a folder");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("written");
    let report = with(NumericsProfiler::new().every(1).dirpath(file.join("below")), |profiler| {
        tell(TensorRole::Output, "layer", &[1.0]);
        profiler.step();
    });
    assert_eq!((report.tensors.len(), report.files.len()), (1, 0));
    let notes = &report.header.notes;
    assert!(notes.iter().any(|note| note.contains("cannot write")), "{notes:?}");
}

#[test]
fn device_tensors_are_counted_and_noted() {
    let report = with(NumericsProfiler::new(), |profiler| {
        let tensor = Numbers { numbers: vec![f32::NAN], is_there: false };
        let told =
            ObservedTensor { role: TensorRole::Loss, name: "loss", tensor: &tensor, input: None };
        hook::tensor(&told);
        profiler.step();
        hook::tensor(&told);
    });
    assert_eq!(report.first_not_finite, None);
    assert!(
        report.header.notes[0].starts_with("2 tensors were not read"),
        "{:?}",
        report.header.notes
    );
    let nothing = with(NumericsProfiler::new(), |profiler| profiler.step());
    assert!(
        nothing.header.notes[0].starts_with("no tensor was observed"),
        "{:?}",
        nothing.header.notes
    );
}

/// A tensor on a device that reduces it. It counts how often the test waits for a result.
pub(super) struct OnDevice {
    numbers: Vec<f32>,
    waits: Arc<AtomicU64>,
}

impl OnDevice {
    pub(super) fn new(numbers: &[f32]) -> Self {
        Self { numbers: numbers.to_vec(), waits: Arc::default() }
    }
}

impl TensorNumbers for OnDevice {
    fn element_type(&self) -> &'static str {
        "f32"
    }

    fn shape(&self) -> Vec<u64> {
        vec![self.numbers.len() as u64]
    }

    fn read(&self, _reader: &mut dyn NumberReader) -> bool {
        false
    }

    fn reduce(&self, reduction: Reduction) -> Option<Box<dyn ReducedNumbers>> {
        let (numbers, waits) = (self.numbers.clone(), self.waits.clone());
        Some(Box::new(Reading { numbers, waits, reduction }))
    }
}

struct Reading {
    numbers: Vec<f32>,
    waits: Arc<AtomicU64>,
    reduction: Reduction,
}

impl ReducedNumbers for Reading {
    fn read(self: Box<Self>) -> Option<Reduced> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        let finite = || self.numbers.iter().map(|it| f64::from(*it)).filter(|it| it.is_finite());
        // A tensor without any finite value simulates a failed device.
        finite().next()?;
        let infinities = self.numbers.iter().filter(|number| number.is_infinite()).count() as u64;
        if self.reduction == Reduction::NotFinite {
            return Some(Reduced { infinities, ..Reduced::default() });
        }
        Some(Reduced {
            infinities,
            minimum: finite().fold(f64::INFINITY, f64::min),
            maximum: finite().fold(f64::NEG_INFINITY, f64::max),
            deviation: finite().sum(),
            deviation_squares: finite().map(|number| number * number).sum(),
            absolute: finite().map(f64::abs).sum(),
            squares: finite().map(|number| number * number).sum(),
            sample: self.numbers.iter().map(|number| f64::from(*number)).collect(),
            ..Reduced::default()
        })
    }
}

#[test]
fn device_reductions_are_awaited_in_order_at_the_end_of_a_step() {
    let waits = Arc::new(AtomicU64::new(0));
    let tell = |name: &str, numbers: &[f32]| {
        let tensor = OnDevice { numbers: numbers.to_vec(), waits: waits.clone() };
        let input = OnDevice { numbers: vec![2.0, 3.0], waits: waits.clone() };
        let (role, input) = (TensorRole::Output, Some(&input as &dyn TensorNumbers));
        hook::tensor(&ObservedTensor { role, name, tensor: &tensor, input });
    };
    let directory = tempfile::tempdir().expect("a folder");
    let profiler = NumericsProfiler::new().every(2).stop_on_nan(true).dirpath(directory.path());
    let report = with(profiler, |profiler| {
        let waits = || waits.load(Ordering::Relaxed);
        tell("first", &[1.0, 4.0]);
        tell("second", &[1.0]);
        let rows = profiler.snapshot().tensors.len();
        // The input of the first layer in a recorded step counts as its batch.
        assert_eq!((waits(), rows), (5, 3), "a loop of one's own may end anywhere");
        profiler.step();
        tell("first", &[1.0, 1.0]);
        tell("second", &[f32::INFINITY, 0.0]);
        tell("third", &[f32::NAN]);
        assert_eq!((waits(), profiler.reason_to_stop()), (5, None), "nothing waits in the middle");
        profiler.step();
        assert_eq!(waits(), 10, "a device that has failed is not asked for the input");
        let reason = profiler.reason_to_stop().expect("it is seen now");
        // In a step that is only watched, a device only counts the non-finite values.
        let said = "in step 1 the output of second is not finite: 1 infinite of 2 numbers. Its input was finite";
        assert_eq!(reason, said);
        tell("first", &[5.0, 5.0]);
        profiler.step();
    });
    let rows: Vec<_> =
        report.tensors.iter().map(|row| (row.role.name(), &*row.name, row.tensors)).collect();
    let expected = [("batch", "first", 2), ("output", "first", 2), ("output", "second", 1)];
    assert_eq!(rows, expected, "steps 0 and 2");
    let first = report.tensors[1].first;
    assert_eq!((first.count, first.minimum, first.maximum), (2, Some(1.0), Some(4.0)));
    assert_eq!((first.mean, first.l1_norm, first.l2_norm), (Some(2.5), 5.0, 17f64.sqrt()));
    let notes = &report.header.notes;
    assert!(notes.iter().any(|note| note.starts_with("1 tensors were not read")), "{notes:?}");
    let text = std::fs::read_to_string(&report.files[0]).expect("a record");
    let lines: Vec<_> = text.lines().skip(1).map(RecordedTensor::from_line).collect();
    let lines: Vec<_> = lines.into_iter().map(|line| line.expect("a tensor")).collect();
    assert_eq!(lines[0].sample, [Some(2.0), Some(3.0)], "the batch");
    assert_eq!(lines[1].sample, [Some(1.0), Some(4.0)]);
    assert_eq!(lines[1].input.expect("it is known").maximum, Some(3.0));
}

#[test]
fn other_profilers_receive_no_tensors() {
    let profiler = Arc::new(TensorProfiler::new());
    let active = activate(profiler);
    struct Unreadable;
    impl TensorNumbers for Unreadable {
        fn element_type(&self) -> &'static str {
            panic!("nobody asks")
        }
        fn shape(&self) -> Vec<u64> {
            panic!("nobody asks")
        }
        fn read(&self, _reader: &mut dyn NumberReader) -> bool {
            panic!("nobody reads")
        }
    }
    hook::tensor(&ObservedTensor {
        role: TensorRole::Loss,
        name: "loss",
        tensor: &Unreadable,
        input: None,
    });
    drop(active);
}

/// Reports the output and input of an op.
fn tell_op(op: &str, given: &[f32], numbers: &[f32]) {
    let (tensor, input) = (
        Numbers { numbers: numbers.to_vec(), is_there: true },
        Numbers { numbers: given.to_vec(), is_there: true },
    );
    let role = TensorRole::OpOutput;
    let scope = hook::OpScope::open(&OpStart::new(Action::op(op)));
    hook::tensor(&ObservedTensor { role, name: op, tensor: &tensor, input: Some(&input) });
    if let Some(scope) = scope {
        scope.close();
    }
}

#[test]
fn ops_are_only_wanted_where_they_are_asked_for_or_looked_for() {
    let wants_ops =
        |profiler: &NumericsProfiler| profiler.interest().contains(Interest::OP_OUTPUTS);
    let report = with(NumericsProfiler::new().every(0), |profiler| {
        for step in 0..4 {
            assert_eq!(wants_ops(profiler), step == 2, "{step}");
            let number = if step == 1 { f32::NAN } else { 1.0 };
            tell_op("log", &[1.0], &[f32::NAN]);
            tell(TensorRole::Output, "layer", &[number]);
            profiler.step();
        }
    });
    let place = |tensor: Option<RecordedTensor>| tensor.map(|tensor| (tensor.step, tensor.name));
    assert_eq!(place(report.first_not_finite), Some((1, "layer".to_owned())));
    assert_eq!(place(report.first_op_not_finite.map(|op| *op)), Some((2, "log".to_owned())));
    with(NumericsProfiler::new().every(0).watch(false).ops(true), |profiler| {
        assert!(!wants_ops(profiler), "no step is recorded, and none is watched");
    });
    with(NumericsProfiler::new().every(2).watch(false).ops(true), |profiler| {
        assert!(wants_ops(profiler));
        profiler.pause();
        assert!(!wants_ops(profiler), "that is no step");
        profiler.resume();
        assert!(wants_ops(profiler));
        profiler.step();
        assert!(!wants_ops(profiler));
    });
}

#[test]
fn an_op_counts_if_it_makes_what_is_not_finite_and_is_told_with_its_module() {
    let report = with(NumericsProfiler::new().every(0).ops(true), |profiler| {
        let module = Action::module("Linear", "head");
        let scope = crate::ActiveScope::open(|| module, Interest::ACTIONS);
        tell_op("add", &[f32::NEG_INFINITY], &[f32::NEG_INFINITY]);
        tell_op("softmax", &[f32::NEG_INFINITY], &[f32::NAN]);
        drop(scope);
        tell_op("mul", &[f32::NAN], &[f32::NAN]);
        profiler.step();
    });
    let first = report.first_not_finite.expect("it is seen");
    assert_eq!(
        (first.role, &*first.name),
        (TensorRole::OpOutput, "[module]Linear: head > softmax")
    );
    assert_eq!((report.not_finite, report.first_op_not_finite), (1, None));
    // The test only checks this prefix, because frameworks declared by concurrent tests may add
    // other notes.
    let notes = &report.header.notes;
    assert!(!notes.iter().any(|note| note.starts_with("no o")), "{notes:?}");
}

#[test]
fn it_is_said_where_no_op_tells() {
    let report = with(NumericsProfiler::new().every(1).ops(true), |profiler| {
        tell(TensorRole::Output, "layer", &[1.0]);
        profiler.step();
    });
    let notes = &report.header.notes;
    assert!(
        notes.iter().any(|note| note.starts_with("no output of an op was observed")),
        "{notes:?}"
    );
}
