//! Measures the time from the end of a recording to its written trace.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mlprof_core::tensor::TensorProfiler;
use mlprof_core::{Profiler, activate};
use mlprof_tch::prelude::TrainResult;

use crate::tiny::Tiny;
use crate::{Options, median, start_kineto};

const ROUNDS: usize = 5;

/// A way to write a trace, with its medians.
struct Way {
    name: &'static str,
    file: &'static str,
    write: fn(&mut Tiny, &Options, &Path) -> TrainResult<Written>,
    milliseconds: f64,
    events: usize,
    bytes: u64,
}

/// The result of writing one trace.
struct Written {
    taken: Duration,
    events: usize,
}

/// Results of all ways. Kineto is the first.
pub struct Traces(Vec<Way>);

/// Writes traces in all ways.
pub fn measure(options: &Options) -> TrainResult<Traces> {
    let mut net = Tiny::warm()?;
    let way = |name, file, write| Way { name, file, write, milliseconds: 0.0, events: 0, bytes: 0 };
    let mut ways = vec![
        way("Kineto", "kineto.json", kineto),
        way("mlprof", "mlprof.json", ours),
        way("mlprof, compressed", "mlprof.json.gz", ours),
    ];
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for (way, times) in ways.iter_mut().zip(&mut times) {
            let file = temporary(way.file);
            let written = (way.write)(&mut net, options, &file);
            way.bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
            let _ = std::fs::remove_file(&file);
            let written = written?;
            times.push(written.taken.as_secs_f64() * 1e3);
            way.events = written.events;
        }
    }
    for (way, times) in ways.iter_mut().zip(&mut times) {
        way.milliseconds = median(times);
    }
    Ok(Traces(ways))
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{}-{name}", std::process::id()))
}

fn ours(net: &mut Tiny, options: &Options, file: &Path) -> TrainResult<Written> {
    let outcome = Arc::new(Mutex::new(None));
    let (target, path) = (outcome.clone(), file.to_owned());
    let profiler = TensorProfiler::new().without_schedule().on_trace_ready(move |cycle| {
        let result = cycle.export_chrome_trace(&path).map(|()| cycle.event_count());
        *target.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    });
    let profiler = Arc::new(profiler);
    let active = activate(profiler.clone());
    net.steps(options.trace_steps)?;
    let start = options.clock.now();
    profiler.teardown(None);
    let taken = options.clock.now() - start;
    drop(active);
    let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    let events = outcome.ok_or("there was no recording")??;
    Ok(Written { taken, events })
}

fn kineto(net: &mut Tiny, options: &Options, file: &Path) -> TrainResult<Written> {
    let running = start_kineto(true, false)?;
    net.steps(options.trace_steps)?;
    let start = options.clock.now();
    let recorded = running.stop().ok_or("cannot stop Kineto")?;
    let is_saved = recorded.save(file);
    let taken = options.clock.now() - start;
    if !is_saved {
        return Err(format!("Kineto cannot write {}", file.display()).into());
    }
    Ok(Written { taken, events: recorded.events().len() })
}

impl Traces {
    /// Returns the results as JSON.
    pub fn figures(&self) -> serde_json::Value {
        let ways = self.0.iter().map(|way| (way.name.to_owned(), way.milliseconds.into()));
        ways.collect::<serde_json::Map<_, _>>().into()
    }
}

impl fmt::Display for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, events, milliseconds, bytes, ratio] =
            ["from end to trace", "events", "ms", "bytes", "of Kineto's"];
        writeln!(f, "{name:<24} {events:>10} {milliseconds:>10} {bytes:>12} {ratio:>12}")?;
        for way in &self.0 {
            let Way { name, events, milliseconds, bytes, .. } = way;
            let ratio = milliseconds / self.0[0].milliseconds;
            writeln!(f, "{name:<24} {events:>10} {milliseconds:>10.1} {bytes:>12} {ratio:>12.2}")?;
        }
        Ok(())
    }
}
