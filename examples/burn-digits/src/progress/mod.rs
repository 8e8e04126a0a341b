//! Console progress: a bar on a terminal, otherwise one line per epoch.

// burn 0.23, with which this example is also tested, passes other arguments.
#[cfg_attr(burn_0_23, path = "calls_0_23.rs")]
mod calls;

use std::collections::HashMap;
use std::io::IsTerminal;

use burn::train::LearnerSummary;
use burn::train::metric::{MetricDefinition, MetricId, NumericEntry};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use indicatif::{ProgressBar, ProgressStyle};

/// A renderer that prints one line per epoch if there is no terminal, where burn's own renderer
/// prints one line per batch. On a terminal it draws a bar.
pub struct Progress {
    bar: Option<ProgressBar>,
    names: HashMap<MetricId, String>,
    train: Averages,
    valid: Averages,
    test: Averages,
    split: String,
    epoch: usize,
    epochs: usize,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Progress").finish_non_exhaustive()
    }
}

impl Progress {
    /// Creates a renderer that prints to standard error, so that reports on standard output can be
    /// piped.
    pub fn new() -> Self {
        Self {
            bar: std::io::stderr().is_terminal().then(|| ProgressBar::new(0).with_style(style())),
            names: HashMap::new(),
            train: Averages::default(),
            valid: Averages::default(),
            test: Averages::default(),
            split: String::new(),
            epoch: 1,
            epochs: 0,
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    fn begin(&mut self, split: &str, items: usize) {
        self.split = split.to_owned();
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_length(items as u64);
            bar.set_message(match split {
                "train" | "valid" => format!("epoch {}/{} {split}", self.epoch, self.epochs),
                test => test.to_owned(),
            });
        }
    }

    fn advance(&self, items: usize) {
        if let Some(bar) = &self.bar {
            bar.set_position(items as u64);
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{msg:24} {wide_bar} {pos}/{len} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Means over one pass, by metric.
#[derive(Default)]
struct Averages(Vec<(MetricId, f64, f64)>);

impl Averages {
    fn add(&mut self, state: MetricState) {
        let MetricState::Numeric(entry, Some(numeric)) = state else {
            return;
        };
        let (sum, count) = match numeric {
            NumericEntry::Value(value) => (value, 1.0),
            NumericEntry::Aggregated { aggregated_value, count } => {
                (aggregated_value * count as f64, count as f64)
            }
            NumericEntry::Final(_) => return,
        };
        match self.0.iter_mut().find(|(id, ..)| *id == entry.metric_id) {
            Some((_, all, number)) => {
                *all += sum;
                *number += count;
            }
            None => self.0.push((entry.metric_id, sum, count)),
        }
    }

    /// Returns the means as text and resets them.
    fn take(&mut self, names: &HashMap<MetricId, String>) -> String {
        let means = self.0.drain(..).map(|(id, sum, count)| {
            let name = names.get(&id).map_or("?", String::as_str).to_lowercase();
            format!("{name} {:.4}", sum / count)
        });
        means.collect::<Vec<_>>().join(", ")
    }
}

impl MetricsRendererTraining for Progress {
    fn update_train(&mut self, state: MetricState) {
        self.train.add(state);
    }

    fn update_valid(&mut self, state: MetricState) {
        self.valid.add(state);
    }

    fn on_train_end(
        &mut self,
        _summary: Option<LearnerSummary>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        Ok(())
    }
}

impl MetricsRendererEvaluation for Progress {
    fn update_test(&mut self, _name: EvaluationName, state: MetricState) {
        self.test.add(state);
    }
}

impl MetricsRenderer for Progress {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.names.insert(definition.metric_id, definition.name.to_string());
    }
}

/// A renderer that shows nothing and calls a function for each training metric.
#[derive(Debug)]
pub struct Quiet<F = fn()>(F);

impl Quiet {
    /// Creates a renderer that does nothing.
    pub fn new() -> Self {
        Self(|| {})
    }
}

impl Default for Quiet {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: FnMut() + Send + Sync> Quiet<F> {
    /// Creates a renderer that calls `each_metric` for each update of a training metric.
    pub fn calling(each_metric: F) -> Self {
        Self(each_metric)
    }
}

impl<F: FnMut() + Send + Sync> MetricsRendererTraining for Quiet<F> {
    fn update_train(&mut self, _state: MetricState) {
        (self.0)();
    }

    fn update_valid(&mut self, _state: MetricState) {}
}

impl<F: FnMut() + Send + Sync> MetricsRendererEvaluation for Quiet<F> {
    fn update_test(&mut self, _name: EvaluationName, _state: MetricState) {}
}

impl<F: FnMut() + Send + Sync> MetricsRenderer for Quiet<F> {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, _definition: MetricDefinition) {}
}
