//! Metrics, independent of the output format.

use crate::durations::Durations;

/// Metrics with the same name.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) metrics: Vec<Metric>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Labels and value of one series.
#[derive(Debug, Clone)]
pub(crate) struct Metric {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Number(f64),
    Durations(Box<Durations>),
}

impl Family {
    pub(crate) fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, help, kind, metrics: Vec::new() }
    }

    /// Adds a metric. If a metric has the same labels, the values are summed; gauges keep the
    /// maximum.
    pub(crate) fn add(&mut self, labels: Vec<(&'static str, String)>, value: Value) {
        let Some(known) = self.metrics.iter_mut().find(|metric| metric.labels == labels) else {
            self.metrics.push(Metric { labels, value });
            return;
        };
        match (&mut known.value, value) {
            (Value::Number(known), Value::Number(number)) if self.kind == Kind::Gauge => {
                *known = known.max(number);
            }
            (Value::Number(known), Value::Number(number)) => *known += number,
            (Value::Durations(known), Value::Durations(durations)) => known.merge(&durations),
            _ => {}
        }
    }

    pub(crate) fn number(mut self, labels: Vec<(&'static str, String)>, value: f64) -> Self {
        self.add(labels, Value::Number(value));
        self
    }
}
