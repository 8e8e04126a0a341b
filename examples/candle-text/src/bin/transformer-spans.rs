//! Profiles a model of candle-transformers through the `tracing` spans of its layers.
//!
//! Usage: `cargo run --release -p candle-text --features spans --bin transformer-spans --
//! --profiler simple`
//!
//! - `--profiler simple` shows a row per span name.
//! - `--profiler advanced` shows how the time of each action is divided over the spans.
//! - `--modules --profiler tensor` shows the spans' layers as a tree.

use std::process::ExitCode;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarMap;
use candle_transformers::models::bert::{BertModel, Config};
use clap::Parser;
use command_line::{ProfilerOptions, reports_of, run};
use mlprof_candle::prelude::*;
use mlprof_core::report::advanced::CallTreeNode;
use mlprof_core::{ActionKind, Report, RunContext, Session, Stage};
use mlprof_train::Result;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::prelude::*;

/// Name of the span around a whole BERT in candle-transformers, as an action and as a module.
const SPAN_OF_THE_MODEL: [&str; 2] = ["model", "[module]Span: model"];

/// Run a small BERT with random weights, and report where the time went
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    profiler: ProfilerOptions,
    /// Number of batches
    #[arg(long, default_value_t = 20)]
    batches: usize,
    /// Number of texts per batch
    #[arg(long, default_value_t = 8)]
    batch_size: usize,
    /// Number of tokens per text
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=512))]
    tokens: u32,
    /// Random seed; the same seed gives the same weights
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Treat each span as a module of the model with its own name
    #[arg(long)]
    modules: bool,
    /// Install the layer only after the model is created, which then records nothing
    #[arg(long)]
    late: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    run("transformer-spans", &options.profiler, |profiler| {
        embed(&options, profiler).map_err(|error| error as _)
    })
}

fn embed(options: &Options, profiler: &Arc<dyn Profiler>) -> Result<()> {
    let model = if options.late {
        let model = bert(options.seed)?;
        listen_to_spans(options.modules);
        model
    } else {
        listen_to_spans(options.modules);
        bert(options.seed)?
    };
    {
        // This program has no training and no trainer, so it begins a custom stage.
        let run = RunContext::from_environment();
        let _session = Session::begin(profiler.clone(), Stage::Predict, &run)?;
        embed_all(options, &model, profiler)?;
    }
    let reports = reports_of(profiler);
    if reports.iter().any(has_no_span) {
        eprintln!(
            "no span was recorded: install the subscriber before you build the model, because its \
             layers create their spans when they are built"
        );
    }
    Ok(options.profiler.write_reports(&reports)?)
}

/// Records every span of the program as an action of the active profiler, or as a module.
fn listen_to_spans(as_modules: bool) {
    let layer = ProfilerLayer::new();
    let layer = if as_modules { layer.as_modules() } else { layer.as_actions() };
    let spans = layer.with_filter(filter_fn(|metadata| metadata.is_span()));
    tracing_subscriber::registry().with(spans).init();
}

fn bert(seed: u64) -> Result<BertModel> {
    let config = Config {
        vocab_size: 2000,
        hidden_size: 128,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        intermediate_size: 512,
        ..Config::default()
    };
    let vb = seeded_var_builder(&VarMap::new(), seed, DType::F32, &Device::Cpu);
    Ok(BertModel::load(vb, &config)?)
}

fn embed_all(options: &Options, model: &BertModel, profiler: &Arc<dyn Profiler>) -> Result<()> {
    let batches = (0..options.batches).map(|batch| token_batch(options, batch));
    for tokens in profiler.profile_iterable(batches, "predict_dataloader_next") {
        embed_batch(&tokens?, model, profiler)?;
        profiler.step();
    }
    Ok(())
}

fn embed_batch(tokens: &Tensor, model: &BertModel, profiler: &Arc<dyn Profiler>) -> Result<Tensor> {
    let _batch = profiler.profile("run_predict_batch");
    let hidden = {
        let _forward = profiler.profile("forward");
        model.forward(tokens, &tokens.zeros_like()?, None)?
    };
    let _pool = profiler.profile("mean_over_tokens");
    Ok(hidden.mean(1)?)
}

/// Returns synthetic tokens.
fn token_batch(options: &Options, batch: usize) -> Result<Tensor> {
    let shape = (options.batch_size, options.tokens as usize);
    let tokens: Vec<u32> =
        (0..shape.0 * shape.1).map(|place| ((place * 7 + batch * 131) % 2000) as u32).collect();
    Ok(Tensor::from_vec(tokens, shape, &Device::Cpu)?)
}

/// Returns `true` if the report has no row for the model's span.
fn has_no_span(report: &Report) -> bool {
    match report {
        Report::Simple(report) => {
            !report.actions.iter().any(|row| SPAN_OF_THE_MODEL.contains(&row.action.as_str()))
        }
        Report::Advanced(report) => {
            !report.threads.iter().flat_map(|tree| &tree.roots).any(has_span)
        }
        Report::Tensor(report) => {
            let rows = &report.key_averages.rows;
            report.cycle_count > 0
                && !rows.iter().any(|row| SPAN_OF_THE_MODEL.contains(&row.name.as_str()))
        }
        _ => false,
    }
}

fn has_span(node: &CallTreeNode) -> bool {
    matches!(node.kind, ActionKind::Span | ActionKind::Module) || node.children.iter().any(has_span)
}
