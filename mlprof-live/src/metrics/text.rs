//! Metrics in Prometheus' text format 0.0.4.
//!
//! *Source*: <https://prometheus.io/docs/instrumenting/exposition_formats/>. The crate
//! prometheus-client writes the OpenMetrics text format, which a reader of this format would
//! misread for counters.

use std::fmt::Write;

use crate::durations::Durations;
use crate::families::family::{Family, Kind, Metric, Value};

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn write(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.metrics.is_empty()) {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = family.help.replace('\\', r"\\").replace('\n', r"\n");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {0} {help}\n# TYPE {0} {kind}", family.name);
        for metric in &family.metrics {
            write_metric(&mut text, family.name, metric);
        }
    }
    text
}

fn write_metric(text: &mut String, name: &str, metric: &Metric) {
    match &metric.value {
        Value::Number(number) => line(text, name, metric, None, *number),
        Value::Durations(durations) => write_histogram(text, name, metric, durations),
    }
}

fn write_histogram(text: &mut String, name: &str, metric: &Metric, durations: &Durations) {
    let bucket = format!("{name}_bucket");
    for (bound, count) in durations.cumulative() {
        line(text, &bucket, metric, Some(&bound.to_string()), count as f64);
    }
    line(text, &bucket, metric, Some("+Inf"), durations.count as f64);
    line(text, &format!("{name}_sum"), metric, None, durations.sum);
    line(text, &format!("{name}_count"), metric, None, durations.count as f64);
}

fn line(text: &mut String, name: &str, metric: &Metric, bound: Option<&str>, number: f64) {
    let labels = metric.labels.iter().map(|(name, value)| (*name, value.as_str()));
    let labels = labels.chain(bound.map(|bound| ("le", bound)));
    let labels: Vec<_> =
        labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let _ = match labels.is_empty() {
        true => writeln!(text, "{name} {number}"),
        false => writeln!(text, "{name}{{{}}} {number}", labels.join(",")),
    };
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_prometheus_reads_them() {
        let mut durations = Durations::default();
        durations.add(0.3);
        durations.add(1000.0);
        let labels = vec![("action", "a \"b\"\\\n".to_owned())];
        let mut histogram = Family::new("x_seconds", Kind::Histogram, "How long.");
        histogram.add(labels, Value::Durations(Box::new(durations)));
        let counter = Family::new("steps_total", Kind::Counter, "Steps.").number(Vec::new(), 7.0);
        let text = write(&[counter, histogram, Family::new("none", Kind::Gauge, "Nothing.")]);
        assert!(
            text.starts_with(
                "# HELP steps_total Steps.\n# TYPE steps_total counter\nsteps_total 7\n"
            )
        );
        let line = r#"x_seconds_bucket{action="a \"b\"\\\n",le="0.25"} 0"#;
        assert!(text.contains(&format!("{line}\n")), "{text}");
        for line in [r#"le="0.5"} 1"#, r#"le="100"} 1"#, r#"le="+Inf"} 2"#, r"x_seconds_sum{"] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(
            text.ends_with("_count{action=\"a \\\"b\\\"\\\\\\n\"} 2\n") && !text.contains("none")
        );
    }
}
