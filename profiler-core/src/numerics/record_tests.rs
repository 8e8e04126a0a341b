//! Tests of records and files: seeds, batches, hashes, limits, reruns and saved tensors.

use safetensors::{Dtype, SafeTensors};

use super::tests::{Numbers, tell, with};
use super::*;
use crate::report::numerics::{RecordHeader, RecordedTensor};
use crate::{ProfilerExt, hook};
use mlprof_events::ObservedTensor;

/// Reports a module's output and its input.
fn tell_output(name: &str, input: &[f32], output: &[f32]) {
    let [input, tensor] = [input, output].map(Numbers::there);
    let role = TensorRole::Output;
    hook::tensor(&ObservedTensor { role, name, tensor: &tensor, input: Some(&input) });
}

/// Returns the header and tensors of a run's record.
fn recorded(report: &NumericsReport) -> (RecordHeader, Vec<RecordedTensor>) {
    let text = std::fs::read_to_string(&report.files[0]).expect("a record");
    let (header, rows) = text.split_once('\n').expect("a header");
    let rows = rows.lines().map(|line| RecordedTensor::from_line(line).expect("a tensor"));
    (RecordHeader::from_line(header).expect("a header"), rows.collect())
}

#[test]
fn the_header_says_what_the_run_began_with() {
    let seeds = |own: Option<u64>, trainers: Option<u64>| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut profiler = NumericsProfiler::new().dirpath(folder.path());
        if let Some(seed) = own {
            profiler = profiler.seed(seed);
        }
        let report = with(profiler, |profiler| {
            let mut run = RunContext::default();
            run.seed = trainers;
            profiler.setup(Stage::Fit, &run);
            tell(TensorRole::Loss, "loss", &[0.5]);
            profiler.teardown(Some(Stage::Fit));
        });
        recorded(&report).0
    };
    let header = seeds(None, Some(7));
    assert_eq!((header.seed, header.element_types), (Some(7), vec!["f32".to_owned()]));
    assert!(header.machine.is_some() && header.settings.iter().any(|it| it.name == "every"));
    assert_eq!(seeds(Some(3), Some(7)).seed, Some(3), "what the program says counts");
    assert_eq!(seeds(None, None).seed, None);
}

#[test]
fn the_first_module_input_stands_for_an_unreported_batch() {
    let batches = |profiler: NumericsProfiler, tells: bool| {
        let folder = tempfile::tempdir().expect("a folder");
        let report = with(profiler.every(1).dirpath(folder.path()), |profiler| {
            for step in 0..2 {
                if tells {
                    tell(TensorRole::Batch, "images", &[1.0, step as f32]);
                }
                tell_output("first", &[1.0, step as f32], &[2.0]);
                tell_output("second", &[2.0], &[3.0]);
                profiler.step();
            }
        });
        recorded(&report).1
    };
    let told = batches(NumericsProfiler::new(), true);
    let seen = batches(NumericsProfiler::new(), false);
    let of_batch = |rows: &[RecordedTensor], name: &str| -> Vec<Option<String>> {
        let batch = rows.iter().filter(|row| row.role == TensorRole::Batch);
        batch.inspect(|row| assert_eq!(row.name, name)).map(|row| row.hash.clone()).collect()
    };
    let hashes = of_batch(&told, "images");
    assert_eq!(hashes.len(), 2, "one of each step");
    assert!(hashes[0].is_some() && hashes[0] != hashes[1], "{hashes:?}");
    assert_eq!(of_batch(&seen, "first"), hashes, "the same numbers");
    assert!(seen.iter().all(|row| row.hash.is_some()), "{seen:?}");
    let few = batches(NumericsProfiler::new().hash(false), false);
    assert!(few.iter().all(|row| row.hash.is_some() == (row.role == TensorRole::Batch)));
}

#[test]
fn of_a_step_with_too_much_the_rest_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let dropped = |tensors, bytes| {
        let profiler = NumericsProfiler::new().every(1).most_per_step(tensors, bytes);
        let report = with(profiler.dirpath(folder.path()), |profiler| {
            for number in 0..5 {
                tell(TensorRole::Output, "layer", &[number as f32; 40]);
            }
            profiler.step();
        });
        let (_, rows) = recorded(&report);
        assert_eq!(report.tensors[0].tensors, 5, "rows have all");
        assert_eq!(rows.len() as u64 + report.dropped, 5);
        let note = format!("{} tensors are not in the record", report.dropped);
        let is_said = report.header.notes.iter().any(|told| told.starts_with(&note));
        assert_eq!(is_said, report.dropped > 0, "{:?}", report.header.notes);
        (rows, report.dropped)
    };
    let (rows, none) = dropped(5, 1 << 20);
    assert_eq!(none, 0);
    assert_eq!(dropped(3, 1 << 20).1, 2);
    let two = rows[..2].iter().map(|row| row.to_line().expect("a line").len()).sum();
    assert_eq!(dropped(5, two).1, 3);
    assert_eq!(dropped(5, two - 1).1, 4);
}

/// Simulates a watched step without recording, in which the second layer produces a NaN.
fn bad_step(again: impl FnOnce(&NumericsProfiler), profiler: NumericsProfiler) -> NumericsReport {
    with(profiler.every(0), |profiler| {
        profiler.step();
        let forward = || {
            tell_output("first", &[1.0], &[0.0]);
            tell_output("second", &[0.0], &[f32::NEG_INFINITY]);
        };
        forward();
        if profiler.begin_rerun() {
            again(profiler);
            profiler.end_rerun(None);
        }
        assert!(!profiler.begin_rerun(), "once");
        profiler.step();
    })
}

#[test]
fn a_batch_in_which_something_is_not_finite_is_looked_at_once_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let forward = |_: &NumericsProfiler| {
        tell_output("first", &[1.0], &[0.0]);
        tell_output("second", &[0.0], &[f32::NEG_INFINITY]);
    };
    let profiler = || NumericsProfiler::new().dirpath(folder.path());
    for wants in [profiler().stop_on_nan(true), profiler().rerun(true)] {
        let report = bad_step(forward, wants);
        let rerun = report.rerun.as_ref().expect("it was run again");
        // The rerun records two outputs and the batch, which is the input of the first module.
        assert_eq!((rerun.step, rerun.tensors), (1, 3));
        assert_eq!(rerun.first_not_finite.as_ref().map(|first| &*first.name), Some("second"));
        assert_eq!(report.not_finite, 1, "counted once");
        let (_, rows) = recorded(&report);
        assert!(rows.iter().all(|row| row.is_rerun && row.step == 1), "{rows:?}");
        assert_eq!(rows.len(), 3);
    }
    let other = bad_step(|_| tell_output("first", &[1.0], &[0.5]), profiler().rerun(true));
    assert_eq!(other.rerun.expect("it was run again").first_not_finite, None);
    assert_eq!(bad_step(|_| panic!("nobody asked"), profiler()).rerun, None);
}

#[test]
fn the_first_tensor_that_is_not_finite_is_saved_with_its_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let profiler = NumericsProfiler::new().every(0).save_tensors(true).dirpath(folder.path());
    let report = with(profiler, |profiler| {
        profiler.setup(Stage::Fit, &RunContext::default());
        tell_output("good", &[1.0], &[2.0]);
        tell_output("[module]Linear: bad", &[0.5, -3.0], &[f32::NAN, 0.25]);
        tell_output("later", &[f32::NAN], &[f32::NAN]);
        profiler.teardown(Some(Stage::Fit));
    });
    let path = folder.path().join("fit.numerics.safetensors");
    assert_eq!(report.files[0], path.display().to_string());
    let bytes = std::fs::read(path).expect("a file");
    let (_, header) = SafeTensors::read_metadata(&bytes).expect("a header");
    let about = header.metadata().as_ref().expect("metadata");
    let told = ["role", "name", "step", "type"].map(|key| about[key].as_str());
    assert_eq!(told, ["output", "[module]Linear: bad", "0", "f32"]);
    let saved = SafeTensors::deserialize(&bytes).expect("tensors");
    let numbers = |name: &str| -> Vec<f32> {
        let tensor = saved.tensor(name).expect("it is there");
        assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::F32, &[2][..]));
        let numbers = tensor.data().chunks_exact(4);
        numbers.map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four"))).collect()
    };
    assert_eq!(numbers("input"), [0.5, -3.0]);
    assert!(numbers("output")[0].is_nan() && numbers("output")[1] == 0.25);
    let nowhere = with(NumericsProfiler::new().every(0).save_tensors(true), |_| {
        tell(TensorRole::Loss, "loss", &[f32::NAN]);
    });
    let notes = &nowhere.header.notes;
    assert!(notes.iter().any(|note| note.starts_with("no tensor was saved")), "{notes:?}");
}

/// The child shares its parent's open record and runs the same code.
#[cfg(unix)]
#[test]
fn a_forked_child_adds_nothing_to_its_parents_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = with(NumericsProfiler::new().every(1).dirpath(folder.path()), |profiler| {
        let step = |value: f32| {
            tell(TensorRole::Loss, "loss", &[value]);
            profiler.step();
        };
        step(0.5);
        // SAFETY: `fork` has no memory-safety preconditions. The child only runs one step, for
        // which mlprof's fork handlers keep its locks free, and then exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            step(100.0);
            // SAFETY: `_exit` only ends the process, without running the parent's exit handlers.
            unsafe { libc::_exit(0) };
        }
        let mut status = 1;
        // SAFETY: `status` is a valid local integer, and `child` is a child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child has ended well");
        step(0.25);
    });
    let losses = std::fs::read_to_string(&report.files[0]).expect("a record");
    assert_eq!(losses.lines().count(), 1 + 2, "{losses}");
}
