//! Trains a small transformer to write text, character by character, under a profiler.
//!
//! `cargo run --release -p candle-text -- --profiler simple`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use candle_text::learner::{Learner, all_passages, random_passages};
use candle_text::text::{Vocabulary, tale};
use candle_text::transformer::Config;
use clap::Parser;
use command_line::{ProfilerOptions, reports_of, run};
use mlprof_candle::prelude::*;
use mlprof_core::{RunContext, Session, Stage};
use mlprof_train::{FitOutcome, Result, StopReason};

const PROGRAM: &str = "char-transformer";
const CONTEXT: usize = 32;
const BATCH_SIZE: usize = 16;
/// The beginning of the generated text.
const PROMPT: &str = "In the morning the ";

/// Train a small transformer, generate text, and report where the time went
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    profiler: ProfilerOptions,
    /// Number of epochs of --steps batches
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// Number of batches per epoch
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    steps: usize,
    /// Number of characters to generate
    #[arg(long, default_value_t = 300)]
    characters: usize,
    /// Sampling temperature; near 0, the most likely character is always chosen
    #[arg(long, default_value_t = 0.5, value_parser = above_zero)]
    temperature: f64,
    /// Random seed; the same seed gives the same losses and the same text
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Folder for checkpoints, saved after every epoch
    #[arg(long, value_name = "FOLDER")]
    checkpoint_dir: Option<PathBuf>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("use 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        Ok(_) => Err("use a number above 0".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    run(PROGRAM, &options.profiler, |profiler| {
        learn_and_write(&options, profiler).map_err(|error| error as _)
    })
}

fn learn_and_write(options: &Options, profiler: &Arc<dyn Profiler>) -> Result<()> {
    let text = tale();
    let vocabulary = Vocabulary::of(&text);
    let config =
        Config { vocabulary: vocabulary.size(), context: CONTEXT, width: 64, heads: 4, blocks: 2 };
    let mut learner = Learner::new(config, options.seed, options.epochs * options.steps)?;
    let mut reports = Vec::new();
    let outcome = learn(options, profiler, &mut learner, vocabulary.encode(&text));
    reports.extend(reports_of(profiler));
    let written = outcome.and_then(|outcome| {
        let written = write(options, profiler, &learner, &vocabulary)?;
        reports.extend(reports_of(profiler));
        Ok((outcome, written))
    });
    // Reports are also written after an error, so that the measurements so far are not lost.
    options.profiler.write_reports(&reports)?;
    let (outcome, written) = written?;
    let metric = |name| outcome.metrics.get(name).copied().unwrap_or(f64::NAN);
    // `println!` is avoided, because it panics if the reader has exited, as in `… | head`.
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{} characters, {} weights", text.len(), learner.weights());
    let _ = writeln!(out, "\n{PROMPT}{written}\n");
    let (loss, validation) = (metric("train_loss"), metric("val_loss"));
    let _ = writeln!(out, "final loss: {loss:.3}, on held-out text: {validation:.3}");
    Ok(())
}

fn learn(
    options: &Options,
    profiler: &Arc<dyn Profiler>,
    learner: &mut Learner,
    mut text: Vec<u32>,
) -> Result<FitOutcome> {
    let validation = text.split_off(text.len() * 9 / 10);
    let train = random_passages(text, CONTEXT, BATCH_SIZE, options.steps);
    let validation = all_passages(&validation, CONTEXT, BATCH_SIZE)?;
    let mut trainer = Trainer::new()
        .max_epochs(options.epochs)
        .gradient_clip_val(1.0)
        .seed(options.seed)
        .profiler(profiler.clone());
    if let Some(directory) = &options.checkpoint_dir {
        trainer = trainer.checkpoint_dir(directory);
    }
    let outcome = trainer.fit(learner, &train, Some(&validation))?;
    match &outcome.stopped {
        StopReason::MaxEpochs => Ok(outcome),
        reason => Err(format!("training ended early: {reason}").into()),
    }
}

/// Generates text in a custom stage, which measures like the trainer's stages but without a
/// trainer.
fn write(
    options: &Options,
    profiler: &Arc<dyn Profiler>,
    learner: &Learner,
    vocabulary: &Vocabulary,
) -> Result<String> {
    let run = RunContext::from_environment();
    let _session = Session::begin(profiler.clone(), Stage::Predict, &run)?;
    let prompt = vocabulary.encode(PROMPT);
    let written = learner.write(&prompt, options.characters, options.temperature, options.seed)?;
    Ok(vocabulary.decode(&written))
}
