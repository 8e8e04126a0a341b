//! Predictions: how long steps would take if something took less time.
//!
//! The dependency graph of the recorded steps is replayed with changed durations. The
//! critical path moves with the changes, so a gain ends where something else becomes critical.

mod best;
mod graph;
mod healthy_rank;
mod interval;
mod loaded;
mod replay;
mod selection;
mod text;
mod threads;

use serde::Serialize;

pub use self::best::Improvement;
use self::graph::{Builder, Graph, Lags, NO_SLICE};
use self::loaded::LoadedTrace;
use self::replay::{Factors, replay};
use self::selection::{DATA, select};
pub use self::text::improvements_text;
use self::threads::Rank;
use crate::host::path::Paths;
use crate::trace::Trace;

/// Version of the JSON layout. It increases when a field changes or is removed.
pub const SCHEMA_VERSION: u32 = 1;

/// Hypothetical change of a training.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Everything with this name takes no time.
    Free(String),
    /// Everything with this name takes this multiple of its time.
    Scale(String, f64),
    /// Everything with this name runs beside the rest of its step.
    Overlap(String),
    /// This rank works as fast as the median of the other ranks.
    HealthyRank(u32),
}

/// Error of a change that cannot be applied.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name occurs in no trace. The second field contains similar names.
    #[error("cannot change {0}: no slice of the traces has this name{near}", near = text::near(.1))]
    UnknownName(String, Vec<String>),
    /// No trace belongs to the rank, or to another rank.
    #[error(
        "cannot replace the times of rank {0}: this needs traces of rank {0} and of another rank"
    )]
    UnknownRank(u32),
}

mlprof_events::debug_as_display!(Error);

/// Recorded and predicted duration of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PredictedStep {
    /// Rank of the process.
    pub rank: u32,
    /// Step number. `None` if the trace has no steps, in which case this entry covers the whole
    /// trace.
    pub number: Option<u64>,
    /// Recorded duration in nanoseconds.
    pub recorded_ns: i64,
    /// Predicted duration in nanoseconds.
    pub predicted_ns: i64,
}

/// Prediction for a set of changes. Times are whole nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Prediction {
    /// Version of the JSON layout.
    pub schema_version: u32,
    /// Changes in words.
    pub changes: Vec<String>,
    /// Recorded duration of all steps in nanoseconds.
    pub recorded_ns: i64,
    /// Predicted duration of all steps in nanoseconds.
    pub predicted_ns: i64,
    /// Lower end of the interval of the predicted duration, in nanoseconds.
    pub low_ns: i64,
    /// Upper end of the interval of the predicted duration, in nanoseconds.
    pub high_ns: i64,
    /// Steps in order.
    pub steps: Vec<PredictedStep>,
    /// Limits of the prediction.
    pub limits: Vec<String>,
}

/// Nodes at the start and end of a recorded part of a step.
#[derive(Debug, Clone, Copy)]
struct Part {
    start: (i64, Option<u32>),
    end: (i64, Option<u32>),
}

/// A step of a trace in the graph.
#[derive(Debug)]
struct GraphStep {
    rank: u32,
    number: Option<u64>,
    parts: Vec<Part>,
    /// Time without recording within the step of a trace without steps, in nanoseconds.
    paused: i64,
}

/// Dependency graph of one trace, or of the traces of several ranks.
#[derive(Debug)]
pub struct WhatIf<'a> {
    traces: Vec<LoadedTrace<'a>>,
    graph: Graph,
    steps: Vec<GraphStep>,
    /// Number of slices of all traces.
    slices: usize,
}

impl<'a> WhatIf<'a> {
    /// Builds the dependency graph. *Cost*: about 1 µs per slice.
    pub fn of(traces: impl IntoIterator<Item = &'a Trace>) -> Self {
        let mut slices = 0;
        let mut loaded = Vec::new();
        for trace in traces {
            loaded.push(LoadedTrace::new(trace, slices as u32)); // fewer than 2^32
            slices += trace.slices.len();
        }
        let mut builder = Builder::default();
        let mut steps = Vec::new();
        for one in &loaded {
            let paths = Paths::new(one.trace, &one.meanings, &one.correlations, &one.work);
            let mut rank = Rank::new(&paths, &one.steps, (one.first_slice, 0));
            rank.add(&mut builder);
            for step in &one.steps {
                let node = |time: i64| (time, rank.at(&builder, step.track, time));
                let parts = step.parts.iter().map(|(start, end)| (node(*start), node(*end)));
                let parts = parts.map(|(start, end)| Part { start, end });
                let whole = step.end() - step.start();
                steps.push(GraphStep {
                    rank: one.trace.info.rank,
                    number: step.number,
                    parts: parts.collect(),
                    paused: whole - step.duration(),
                });
            }
        }
        let (graph, place) = builder.finish();
        for part in steps.iter_mut().flat_map(|step| &mut step.parts) {
            for (_, node) in [&mut part.start, &mut part.end] {
                *node = node.map(|node| place[node as usize]);
            }
        }
        Self { traces: loaded, graph, steps, slices }
    }

    /// Predicts the durations of all steps.
    ///
    /// # Errors
    ///
    /// Returns an error if a name or a rank of a change does not occur in the traces.
    pub fn predict(&self, changes: &[Change]) -> Result<Prediction, Error> {
        let mut factors = Factors { of_slices: vec![1.0; self.slices], without_hand_over: false };
        let mut hidden = vec![false; self.slices];
        for change in changes {
            match change {
                Change::Scale(name, factor) => self.scale(&mut factors, name, *factor)?,
                Change::Free(name) => {
                    factors.without_hand_over |= name == DATA;
                    self.scale(&mut factors, name, 0.0)?;
                }
                Change::Overlap(name) => {
                    self.scale(&mut factors, name, 0.0)?;
                    for (place, is_selected) in self.selected(name)?.into_iter().enumerate() {
                        hidden[place] |= is_selected;
                    }
                }
                Change::HealthyRank(rank) => healthy_rank::apply(self, &mut factors, *rank)?,
            }
        }
        let hidden = self.hidden_time(&hidden);
        let durations = |lags| {
            let of_steps = self.durations(&replay(&self.graph, &factors, lags));
            of_steps.into_iter().zip(&hidden).map(|(one, hidden)| one.max(*hidden)).collect()
        };
        let recorded: Vec<i64> = self.recorded();
        let predicted: Vec<i64> = durations(Lags::Usual);
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for durations in [predicted.clone(), durations(Lags::Least), durations(Lags::Most)] {
            let gains = recorded.iter().zip(durations).map(|(before, after)| before - after);
            let (least, most) = interval::bootstrap(&gains.collect::<Vec<_>>());
            (low, high) = (low.min(least), high.max(most));
        }
        let all: i64 = recorded.iter().sum();
        let steps = self.steps.iter().zip(recorded.iter().zip(&predicted));
        let steps = steps.map(|(step, (recorded_ns, predicted_ns))| PredictedStep {
            rank: step.rank,
            number: step.number,
            recorded_ns: *recorded_ns,
            predicted_ns: *predicted_ns,
        });
        Ok(Prediction {
            schema_version: SCHEMA_VERSION,
            changes: changes.iter().map(text::change).collect(),
            recorded_ns: all,
            predicted_ns: predicted.iter().sum(),
            low_ns: all - high,
            high_ns: all - low,
            steps: steps.collect(),
            limits: text::limits(self.traces.len()),
        })
    }

    fn scale(&self, factors: &mut Factors, name: &str, factor: f64) -> Result<(), Error> {
        for (place, is_selected) in self.selected(name)?.into_iter().enumerate() {
            factors.of_slices[place] *= if is_selected { factor } else { 1.0 };
        }
        Ok(())
    }

    /// Returns `true` for each slice of all traces that a name selects.
    fn selected(&self, name: &str) -> Result<Vec<bool>, Error> {
        let selected: Vec<bool> =
            self.traces.iter().flat_map(|loaded| select(loaded, name)).collect();
        match selected.contains(&true) {
            true => Ok(selected),
            false => {
                let near = selection::near_names(&self.traces, name);
                Err(Error::UnknownName(name.to_owned(), near))
            }
        }
    }

    fn recorded(&self) -> Vec<i64> {
        let of_step =
            |step: &GraphStep| step.parts.iter().map(|part| part.end.0 - part.start.0).sum();
        self.steps.iter().map(of_step).collect()
    }

    /// Returns the duration of each step in a replay.
    fn durations(&self, ends: &[i64]) -> Vec<i64> {
        let at = |(time, node): (i64, Option<u32>)| node.map_or(time, |node| ends[node as usize]);
        let of_step = |step: &GraphStep| {
            if step.number.is_none()
                && let Some(first) = step.parts.first()
            {
                // The whole trace ends with its last slice, which can be device work.
                let last = ends.iter().copied().max().unwrap_or(first.start.0);
                return last - first.start.0 - step.paused;
            }
            step.parts.iter().map(|part| at(part.end) - at(part.start)).sum()
        };
        self.steps.iter().map(of_step).collect()
    }

    /// Returns the time of the selected slices that ended in each step, in nanoseconds.
    fn hidden_time(&self, selected: &[bool]) -> Vec<i64> {
        let mut hidden: Vec<(i64, i64)> = Vec::new();
        for node in &self.graph.nodes {
            if node.slice != NO_SLICE && selected[node.slice as usize] {
                hidden.push((node.end, node.end - node.ready));
            }
        }
        let sum = |part: &Part| {
            let first = hidden.partition_point(|(end, _)| *end <= part.start.0);
            let last = hidden.partition_point(|(end, _)| *end <= part.end.0);
            hidden[first..last.max(first)].iter().map(|(_, duration)| duration).sum::<i64>()
        };
        self.steps.iter().map(|step| step.parts.iter().map(sum).sum()).collect()
    }
}
