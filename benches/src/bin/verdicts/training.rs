//! Compares short trainings that run in separate processes.

use std::path::Path;
use std::process::{Command, ExitCode};

use mlprof_core::report::comparison::compare;
use mlprof_core::{Profiler, ProfilerExt, Report, SimpleProfiler};

use crate::Alarms;
use crate::chance::Chance;

const INPUTS: usize = 64;
const HIDDEN: usize = 128;
const CLASSES: usize = 10;
const BATCH: usize = 32;
const RATE: f32 = 0.05;

/// A perceptron with one hidden layer.
struct Net {
    hidden: Vec<f32>,
    output: Vec<f32>,
}

/// Data of a forward pass that the backward pass needs.
struct Pass {
    active: Vec<f32>,
    /// Probabilities minus targets.
    errors: Vec<f32>,
    loss: f32,
}

impl Net {
    fn new(chance: &mut Chance) -> Self {
        let mut numbers = |count: usize, inputs: usize| -> Vec<f32> {
            let deviation = (2.0 / inputs as f64).sqrt();
            (0..count).map(|_| (deviation * chance.normal()) as f32).collect()
        };
        Self { hidden: numbers(INPUTS * HIDDEN, INPUTS), output: numbers(HIDDEN * CLASSES, HIDDEN) }
    }

    fn forward(&self, batch: &[(Vec<f32>, usize)]) -> Pass {
        let mut pass = Pass { active: Vec::new(), errors: Vec::new(), loss: 0.0 };
        for (inputs, class) in batch {
            let hidden = times(inputs, &self.hidden, HIDDEN);
            let hidden: Vec<f32> = hidden.into_iter().map(|it| it.max(0.0)).collect();
            let mut outputs = times(&hidden, &self.output, CLASSES);
            let most = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            outputs.iter_mut().for_each(|it| *it = (*it - most).exp());
            let sum: f32 = outputs.iter().sum();
            outputs.iter_mut().for_each(|it| *it /= sum);
            pass.loss -= outputs[*class].max(1e-9).ln() / BATCH as f32;
            outputs[*class] -= 1.0;
            pass.active.extend(hidden);
            pass.errors.extend(outputs);
        }
        pass
    }

    fn backward(&self, batch: &[(Vec<f32>, usize)], pass: &Pass) -> Self {
        let mut gradients =
            Self { hidden: vec![0.0; self.hidden.len()], output: vec![0.0; self.output.len()] };
        let samples = pass.active.chunks(HIDDEN).zip(pass.errors.chunks(CLASSES));
        for ((inputs, _), (active, errors)) in batch.iter().zip(samples) {
            let mut inner = vec![0.0; HIDDEN];
            for (unit, activity) in active.iter().enumerate().filter(|(_, it)| **it > 0.0) {
                let weights = &self.output[unit * CLASSES..][..CLASSES];
                inner[unit] = weights.iter().zip(errors).map(|(one, other)| one * other).sum();
                let row = &mut gradients.output[unit * CLASSES..][..CLASSES];
                row.iter_mut().zip(errors).for_each(|(sum, error)| *sum += activity * error);
            }
            for (place, input) in inputs.iter().enumerate() {
                let row = &mut gradients.hidden[place * HIDDEN..][..HIDDEN];
                row.iter_mut().zip(&inner).for_each(|(sum, error)| *sum += input * error);
            }
        }
        gradients
    }

    fn update(&mut self, gradients: &Self) {
        let step = |weights: &mut Vec<f32>, gradients: &[f32]| {
            let rate = RATE / BATCH as f32;
            weights.iter_mut().zip(gradients).for_each(|(weight, it)| *weight -= rate * it);
        };
        step(&mut self.hidden, &gradients.hidden);
        step(&mut self.output, &gradients.output);
    }
}

/// Returns a row times a matrix with `columns` columns.
fn times(row: &[f32], matrix: &[f32], columns: usize) -> Vec<f32> {
    let mut product = vec![0.0; columns];
    for (number, weights) in row.iter().zip(matrix.chunks(columns)) {
        product.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += number * weight);
    }
    product
}

/// Returns noisy images of ten classes.
fn batch(kinds: &[Vec<f32>], chance: &mut Chance) -> Vec<(Vec<f32>, usize)> {
    let one = |_| {
        let class = (chance.part() * CLASSES as f64) as usize % CLASSES;
        let inputs = kinds[class].iter().map(|it| it + chance.normal() as f32).collect();
        (inputs, class)
    };
    (0..BATCH).map(one).collect()
}

/// Trains and writes the report.
pub(crate) fn train(steps: u64, file: &Path) -> ExitCode {
    let profiler = SimpleProfiler::new();
    let mut chance = Chance::new(7);
    let kind = |_| (0..INPUTS).map(|_| chance.normal() as f32).collect();
    let kinds: Vec<Vec<f32>> = (0..CLASSES).map(kind).collect();
    let mut net = Net::new(&mut chance);
    let mut losses = Vec::new();
    for _ in 0..steps {
        let batch = {
            let _scope = profiler.profile("train_dataloader_next");
            batch(&kinds, &mut chance)
        };
        let pass = {
            let _scope = profiler.profile("forward");
            net.forward(&batch)
        };
        let gradients = {
            let _scope = profiler.profile("backward");
            net.backward(&batch, &pass)
        };
        {
            let _scope = profiler.profile("optimizer_step");
            net.update(&gradients);
        }
        losses.push(pass.loss);
        profiler.step();
    }
    let (first, last) = (losses.first(), losses.last());
    if steps >= 100 && last >= first {
        eprintln!("error: the loss went from {first:?} to {last:?}");
        return ExitCode::FAILURE;
    }
    let json = profiler.report().map(|report| report.to_json());
    match json {
        Some(Ok(json)) if std::fs::write(file, &json).is_ok() => ExitCode::SUCCESS,
        _ => {
            eprintln!("error: cannot write {}", file.display());
            ExitCode::FAILURE
        }
    }
}

/// Returns the report of a training in a separate process.
fn trained(steps: u64, file: &Path) -> Result<Report, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("--train").arg(file).args(["--steps", &steps.to_string()]);
    let status = command.status().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("a training ended with {status}"));
    }
    let json = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    serde_json::from_str(&json).map_err(|error| error.to_string())
}

/// Compares three trainings with three equal ones `comparisons` times. The trainings of both sides
/// alternate.
pub(crate) fn compare_trainings(comparisons: usize, steps: u64) -> ExitCode {
    let file = std::env::temp_dir().join(format!("verdicts-{}.json", std::process::id()));
    let (mut single, mut three) = (Alarms::default(), Alarms::default());
    for number in 1..=comparisons {
        let mut sides = [Vec::new(), Vec::new()];
        for turn in 0..6 {
            match trained(steps, &file) {
                Ok(report) => sides[turn % 2].push(report),
                Err(error) => {
                    eprintln!("error: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
        let [before, after] = &sides;
        let all = [(&mut single, &before[..1], &after[..1]), (&mut three, before, after)];
        for (alarms, before, after) in all {
            match compare(before, after) {
                Ok(comparison) => {
                    alarms.count(&comparison);
                    for regression in comparison.regressions(crate::THRESHOLD) {
                        println!("{number}, {} runs: {regression}", before.len());
                    }
                }
                Err(error) => eprintln!("error: {error}"),
            }
        }
    }
    // A file that cannot be removed causes no harm, so the error is ignored.
    let _ = std::fs::remove_file(&file);
    println!(
        "Equal trainings of {steps} steps: any row of 1 % or more slower, and by more than 5 %"
    );
    println!("three against three: {}", three.text());
    println!("one against one:     {}", single.text());
    ExitCode::SUCCESS
}
