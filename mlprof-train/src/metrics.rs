//! Logged values: those of the running passes over the data, and the results of finished passes.

use std::collections::{BTreeMap, BTreeSet};

/// Reduction of the values that are logged under one name to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reduce {
    /// Weighted mean of the values.
    #[default]
    Mean,
    /// Sum of the values. Weights are ignored.
    Sum,
    /// Minimum of the values. Weights are ignored.
    Min,
    /// Maximum of the values. Weights are ignored.
    Max,
}

/// Options of [`TrainerState::log_with`](super::TrainerState::log_with).
///
/// # Examples
///
/// ```
/// use mlprof_train::{LogOptions, Reduce};
///
/// let peak = LogOptions::new().reduce(Reduce::Max).prog_bar(false);
/// let loss = LogOptions::new().on_step(true).weight(64.0);
/// # let _ = (peak, loss);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogOptions {
    on_step: bool,
    on_epoch: bool,
    prog_bar: bool,
    reduce: Reduce,
    weight: f64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl LogOptions {
    /// Returns the defaults: the mean of the pass over the data, shown in the progress bar.
    pub const fn new() -> Self {
        let reduce = Reduce::Mean;
        Self { on_step: false, on_epoch: true, prog_bar: true, reduce, weight: 1.0 }
    }

    /// Sets whether the value itself is available until the next one is logged; false by default.
    /// With [`on_epoch`](Self::on_epoch) its name is `{name}_step`, and the value of the pass is
    /// `{name}_epoch`.
    #[must_use]
    pub const fn on_step(mut self, is_kept: bool) -> Self {
        self.on_step = is_kept;
        self
    }

    /// Sets whether the values of the pass are reduced to one when it ends; true by default.
    #[must_use]
    pub const fn on_epoch(mut self, is_reduced: bool) -> Self {
        self.on_epoch = is_reduced;
        self
    }

    /// Sets whether the progress bar shows the value; true by default.
    #[must_use]
    pub const fn prog_bar(mut self, is_shown: bool) -> Self {
        self.prog_bar = is_shown;
        self
    }

    /// Sets the reduction of the pass's values; their mean by default.
    #[must_use]
    pub const fn reduce(mut self, reduce: Reduce) -> Self {
        self.reduce = reduce;
        self
    }

    /// Sets the weight of the value in the mean, usually the number of samples in the batch. The
    /// default is 1.
    #[must_use]
    pub const fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }
}

/// Values of one name within a pass.
#[derive(Clone)]
struct Reduction {
    reduce: Reduce,
    has_step: bool,
    value: f64,
    weights: f64,
}

impl Reduction {
    fn new(options: &LogOptions) -> Self {
        let value = match options.reduce {
            Reduce::Mean | Reduce::Sum => 0.0,
            Reduce::Min => f64::INFINITY,
            Reduce::Max => f64::NEG_INFINITY,
        };
        Self { reduce: options.reduce, has_step: false, value, weights: 0.0 }
    }

    fn add(&mut self, value: f64, options: &LogOptions) {
        self.has_step |= options.on_step;
        self.weights += options.weight;
        self.value = match self.reduce {
            Reduce::Mean => self.value + value * options.weight,
            Reduce::Sum => self.value + value,
            // A NaN must not be hidden by later values.
            Reduce::Min if value < self.value || value.is_nan() => value,
            Reduce::Max if value > self.value || value.is_nan() => value,
            Reduce::Min | Reduce::Max => self.value,
        };
    }

    fn result(&self) -> f64 {
        match self.reduce {
            Reduce::Mean => self.value / self.weights,
            Reduce::Sum | Reduce::Min | Reduce::Max => self.value,
        }
    }
}

/// One pass over data.
#[derive(Clone, Default)]
struct Pass {
    values: BTreeMap<String, Reduction>,
    /// Set when the batches of the pass are done. Values that its last hooks log are then available
    /// at once.
    is_over: bool,
    /// `true` for a sanity check, whose values are discarded.
    is_trial: bool,
}

/// Values of the running passes over data, and the results of finished passes. Running passes form
/// a stack, because a validation runs inside a training pass.
#[derive(Default, Clone)]
pub(super) struct Metrics {
    running: Vec<Pass>,
    /// Values logged outside of any pass.
    outside: BTreeMap<String, Reduction>,
    finished: BTreeMap<String, f64>,
    /// Names that the progress bar does not show.
    hidden: BTreeSet<String>,
    /// Names whose values are available at once.
    of_steps: BTreeSet<String>,
}

impl Metrics {
    pub(super) fn begin_pass(&mut self, is_trial: bool) {
        self.running.push(Pass { is_trial, ..Pass::default() });
    }

    pub(super) fn add(&mut self, name: &str, value: f64, options: &LogOptions) {
        let Self { running, outside, finished, hidden, of_steps } = self;
        let (values, is_over) = match running.last_mut() {
            Some(pass) if pass.is_trial => return,
            Some(pass) => (&mut pass.values, pass.is_over),
            None => (outside, true),
        };
        if !options.prog_bar && !hidden.contains(name) {
            hidden.extend([name.to_owned(), format!("{name}_step"), format!("{name}_epoch")]);
        }
        if options.on_step {
            if !of_steps.contains(name) {
                of_steps.insert(name.to_owned());
            }
            set(finished, name, value);
            if options.on_epoch {
                finished.insert(format!("{name}_step"), value);
            }
        }
        if !options.on_epoch {
            return;
        }
        // Most calls find the name, and then no copy of it is needed.
        let reduction = match values.get_mut(name) {
            Some(known) => known,
            None => values.entry(name.to_owned()).or_insert_with(|| Reduction::new(options)),
        };
        reduction.add(value, options);
        if is_over {
            leave(finished, name, reduction);
        }
    }

    /// Ends the batches of the innermost pass. Its values become available, and values that its
    /// last hooks log are added to them.
    pub(super) fn finish_pass(&mut self) {
        let Some(pass) = self.running.last_mut() else { return };
        pass.is_over = true;
        for (name, reduction) in std::mem::take(&mut pass.values) {
            leave(&mut self.finished, &name, &reduction);
        }
    }

    /// Ends the innermost pass after its last hooks.
    pub(super) fn end_pass(&mut self) {
        self.running.pop();
    }

    pub(super) fn get(&self, name: &str) -> Option<f64> {
        self.finished.get(name).copied()
    }

    /// Sets a value that is available at once.
    pub(super) fn set(&mut self, name: &str, value: f64) {
        set(&mut self.finished, name, value);
    }

    /// Returns all available values by name.
    pub(super) fn all(&self) -> &BTreeMap<String, f64> {
        &self.finished
    }

    /// Returns the step values that the progress bar shows while a pass runs.
    pub(super) fn shown_of_steps(&self) -> impl Iterator<Item = (&str, f64)> {
        self.shown().filter(|(name, _)| self.of_steps.contains(*name))
    }

    /// Returns the values that the progress bar shows at the end of a pass.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&str, f64)> {
        let is_shown = |name: &&String| !self.hidden.contains(*name);
        let steps = |name: &&String| {
            // A value that is available under three names is shown only under the first.
            ["_step", "_epoch"]
                .iter()
                .any(|end| name.strip_suffix(end).is_some_and(|it| self.finished.contains_key(it)))
        };
        let names = self.finished.keys().filter(is_shown).filter(move |name| !steps(name));
        names.map(|name| (name.as_str(), self.finished[name]))
    }
}

fn leave(finished: &mut BTreeMap<String, f64>, name: &str, reduction: &Reduction) {
    let value = reduction.result();
    set(finished, name, value);
    if reduction.has_step {
        finished.insert(format!("{name}_epoch"), value);
    }
}

fn set(values: &mut BTreeMap<String, f64>, name: &str, value: f64) {
    match values.get_mut(name) {
        Some(known) => *known = value,
        None => {
            values.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(metrics: &mut Metrics, name: &str, value: f64, weight: f64) {
        metrics.add(name, value, &LogOptions::new().weight(weight));
    }

    fn all(metrics: &Metrics) -> Vec<(&str, f64)> {
        metrics.all().iter().map(|(name, value)| (name.as_str(), *value)).collect()
    }

    #[test]
    fn means_are_weighted_and_passes_nest() {
        let mut metrics = Metrics::default();
        metrics.begin_pass(false);
        add(&mut metrics, "loss", 1.0, 1.0);
        metrics.begin_pass(false);
        add(&mut metrics, "accuracy", 1.0, 30.0);
        add(&mut metrics, "accuracy", 0.0, 10.0);
        assert_eq!(metrics.get("accuracy"), None, "not before the pass is over");
        metrics.finish_pass();
        metrics.end_pass();
        add(&mut metrics, "loss", 3.0, 1.0);
        metrics.begin_pass(true);
        add(&mut metrics, "accuracy", 0.0, 1.0);
        metrics.finish_pass();
        add(&mut metrics, "accuracy", 0.0, 1.0);
        metrics.end_pass();
        metrics.finish_pass();
        metrics.end_pass();
        assert_eq!(all(&metrics), [("accuracy", 0.75), ("loss", 2.0)]);
    }

    #[test]
    fn values_logged_by_the_last_hooks_belong_to_the_pass() {
        let mut metrics = Metrics::default();
        metrics.begin_pass(false);
        for pass in [1.0, 2.0] {
            metrics.begin_pass(false);
            add(&mut metrics, "loss", 10.0 * pass, 1.0);
            metrics.finish_pass();
            add(&mut metrics, "f1", pass, 1.0);
            add(&mut metrics, "loss", pass, 1.0);
            assert_eq!(all(&metrics), [("f1", pass), ("loss", pass)], "seen at once");
            metrics.end_pass();
        }
        metrics.finish_pass();
        metrics.end_pass();
        assert_eq!(all(&metrics), [("f1", 2.0), ("loss", 2.0)]);
        // The metric is logged outside of any pass.
        add(&mut metrics, "size", 5.0, 1.0);
        assert_eq!(metrics.get("size"), Some(5.0));
    }

    #[test]
    fn values_are_reduced_as_their_options_say() {
        let mut metrics = Metrics::default();
        metrics.begin_pass(false);
        for value in [2.0, -1.0, 5.0] {
            for (name, reduce) in [
                ("max", Reduce::Max),
                ("mean", Reduce::Mean),
                ("min", Reduce::Min),
                ("sum", Reduce::Sum),
            ] {
                metrics.add(name, value, &LogOptions::new().reduce(reduce));
            }
        }
        metrics.add("lost", f64::NAN, &LogOptions::new().reduce(Reduce::Min));
        metrics.add("lost", 1.0, &LogOptions::new().reduce(Reduce::Min));
        metrics.finish_pass();
        assert!(metrics.get("lost").is_some_and(f64::is_nan), "a NaN is not hidden");
        let values = ["max", "mean", "min", "sum"].map(|name| metrics.get(name));
        assert_eq!(values, [Some(5.0), Some(2.0), Some(-1.0), Some(6.0)]);
    }

    #[test]
    fn values_of_steps_are_seen_at_once_and_named_as_lightning_names_them() {
        let mut metrics = Metrics::default();
        metrics.begin_pass(false);
        let both = LogOptions::new().on_step(true);
        let step = both.on_epoch(false).prog_bar(false);
        for value in [1.0, 3.0] {
            metrics.add("loss", value, &both);
            metrics.add("rate", value, &step);
            assert_eq!(all(&metrics), [("loss", value), ("loss_step", value), ("rate", value)]);
        }
        metrics.finish_pass();
        let expected = [("loss", 2.0), ("loss_epoch", 2.0), ("loss_step", 3.0), ("rate", 3.0)];
        assert_eq!(all(&metrics), expected);
        assert_eq!(metrics.shown().collect::<Vec<_>>(), [("loss", 2.0)]);
        add(&mut metrics, "accuracy", 0.5, 1.0);
        assert_eq!(metrics.shown_of_steps().collect::<Vec<_>>(), [("loss", 2.0)]);
    }
}
