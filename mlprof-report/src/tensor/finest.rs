//! Op rows in the finest recorded grouping, for regrouping by readers of the report.

use std::collections::HashMap;

use serde::Serialize;

use super::table::shapes_text;
use super::{KeyAverage, KeyAverages};
use crate::advanced::is_zero;
use mlprof_events::OrderExt;
use mlprof_events::{ActionKind, Phase};

/// Maximum number of such rows in a report.
pub const MOST_ROWS: usize = 4096;

/// Row of ops, kernels, actions or modules with equal values of all grouping fields. Times are in
/// seconds and memory is in bytes. Fields omitted in JSON are 0 or unknown.
///
/// Calls, self times, memory and FLOPs of rows are additive. The device time of a kernel is an
/// exception, because the row of its op repeats it. Totals of nested rows count the inner rows
/// twice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct FinestRow {
    /// Name of the row, as in [`KeyAverage::name`].
    pub name: String,
    /// Kind of the first call.
    pub kind: ActionKind,
    /// `true` if it ran on a device.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_on_device: bool,
    /// Input shapes as text: `[[64, 10], [10]]`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shapes: String,
    /// Enclosing scopes, innermost first, if the report's table groups by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// Module as `path: Type`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Phase of the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Number of calls.
    pub calls: u64,
    /// Host time in seconds, including nested calls.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cpu_seconds: f64,
    /// Self host time in seconds.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub self_cpu_seconds: f64,
    /// Device time in seconds of all kernels launched by it or by nested calls.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub device_seconds: f64,
    /// Device time in seconds of the kernels that it launched itself.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub self_device_seconds: f64,
    /// Duration of the first call in seconds. For merged rows, the longest of these.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub first_seconds: f64,
    /// Shortest of the other calls, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_seconds: Option<f64>,
    /// Mean of the other calls, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_seconds: Option<f64>,
    /// Longest of the other calls, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// Host memory allocated minus freed, in bytes, without nested calls.
    #[serde(default, skip_serializing_if = "is_balanced")]
    pub self_cpu_memory_bytes: i64,
    /// Device memory allocated minus freed, in bytes, without nested calls.
    #[serde(default, skip_serializing_if = "is_balanced")]
    pub self_device_memory_bytes: i64,
    /// Memory allocated by itself on all devices, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub allocated_bytes: u64,
    /// Number of floating-point operations.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flops: u64,
    /// Bytes that all calls read and write at least. `None` if they are unknown for any call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_bytes: Option<u64>,
}

impl From<&KeyAverage> for FinestRow {
    fn from(row: &KeyAverage) -> Self {
        Self {
            name: row.name.clone(),
            kind: row.kind,
            is_on_device: row.is_on_device,
            shapes: row
                .input_shapes
                .as_ref()
                .map_or_else(String::new, |shapes| shapes_text(shapes)),
            stack: row.stack.clone(),
            module: row.module.clone().unwrap_or_default(),
            phase: row.phase,
            calls: row.calls,
            cpu_seconds: row.cpu_seconds,
            self_cpu_seconds: row.self_cpu_seconds,
            device_seconds: row.device_seconds,
            self_device_seconds: row.self_device_seconds,
            first_seconds: row.first_seconds,
            min_seconds: row.rest.map(|rest| rest.min_seconds),
            mean_seconds: row.rest_mean_seconds(),
            max_seconds: row.rest.map(|rest| rest.max_seconds),
            self_cpu_memory_bytes: row.self_cpu_memory_bytes,
            self_device_memory_bytes: row.self_device_memory_bytes,
            allocated_bytes: row.memory.iter().map(|memory| memory.self_allocated_bytes).sum(),
            flops: row.flops,
            moved_bytes: row.moved_bytes,
        }
    }
}

impl FinestRow {
    fn add(&mut self, other: &Self) {
        self.mean_seconds = match (self.mean_seconds, other.mean_seconds) {
            (Some(own), Some(others)) => {
                // The weighted mean always lies between the minimum and the maximum.
                let weight = |row: &Self| row.calls.saturating_sub(1).max(1) as f64;
                let share = weight(other) / (weight(self) + weight(other));
                Some(own + (others - own) * share)
            }
            (own, others) => own.or(others),
        };
        self.calls += other.calls;
        self.cpu_seconds += other.cpu_seconds;
        self.self_cpu_seconds += other.self_cpu_seconds;
        self.device_seconds += other.device_seconds;
        self.self_device_seconds += other.self_device_seconds;
        self.first_seconds = self.first_seconds.max(other.first_seconds);
        let either =
            |one: Option<f64>, other: Option<f64>, both: fn(f64, f64) -> f64| match (one, other) {
                (Some(one), Some(other)) => Some(both(one, other)),
                (one, other) => one.or(other),
            };
        self.min_seconds = either(self.min_seconds, other.min_seconds, f64::min);
        self.max_seconds = either(self.max_seconds, other.max_seconds, f64::max);
        self.self_cpu_memory_bytes += other.self_cpu_memory_bytes;
        self.self_device_memory_bytes += other.self_device_memory_bytes;
        self.allocated_bytes += other.allocated_bytes;
        self.flops = self.flops.saturating_add(other.flops);
        let moved = self.moved_bytes.zip(other.moved_bytes);
        self.moved_bytes = moved.map(|(own, other)| own.saturating_add(other));
    }

    fn own_seconds(&self) -> f64 {
        self.self_cpu_seconds.max(self.self_device_seconds)
    }
}

/// Converts the rows of a table in the finest grouping.
pub fn finest_rows(averages: &KeyAverages) -> Vec<FinestRow> {
    at_most(averages.rows.iter().map(FinestRow::from).collect(), MOST_ROWS)
}

/// Name of the row that contains all rows beyond the limit.
const OTHERS: &str = "(others)";

/// Reduces the rows to at most `most` rows, and keeps all sums. The most expensive rows are kept.
/// The others are merged by name and lose their other fields. If there are still too many, the rest
/// becomes a single row.
pub(crate) fn at_most(mut rows: Vec<FinestRow>, most: usize) -> Vec<FinestRow> {
    if rows.len() <= most {
        return rows;
    }
    rows.order_by(|one, other| other.own_seconds().total_cmp(&one.own_seconds()));
    let others = rows.split_off(most / 2);
    let mut places: HashMap<(String, ActionKind, bool), usize> = HashMap::new();
    for mut other in others {
        let mut key = (other.name.clone(), other.kind, other.is_on_device);
        if rows.len() + 1 >= most && !places.contains_key(&key) {
            OTHERS.clone_into(&mut other.name);
            (other.kind, other.is_on_device) = (ActionKind::Op, false);
            key = (other.name.clone(), other.kind, other.is_on_device);
        }
        match places.get(&key) {
            Some(place) => rows[*place].add(&other),
            None => {
                places.insert(key, rows.len());
                let (shapes, module) = (String::new(), String::new());
                rows.push(FinestRow { shapes, module, stack: Vec::new(), phase: None, ..other });
            }
        }
    }
    rows
}

// serde requires references.
fn is_false(value: &bool) -> bool {
    !value
}

fn is_nothing(seconds: &f64) -> bool {
    *seconds == 0.0
}

fn is_balanced(bytes: &i64) -> bool {
    *bytes == 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::findings::samples;

    fn row(name: &str, module: &str, seconds: f64) -> FinestRow {
        let average = samples::op(name, 3, seconds);
        FinestRow { module: module.to_owned(), ..FinestRow::from(&average) }
    }

    fn sums(rows: &[FinestRow]) -> (u64, f64) {
        let own = rows.iter().map(|row| row.self_cpu_seconds).sum();
        (rows.iter().map(|row| row.calls).sum(), own)
    }

    #[test]
    fn rows_for_which_there_is_no_room_are_put_together_by_name() {
        let name = |index: usize| ["aten::mm", "aten::add"][index % 2];
        let rows: Vec<_> =
            (0..40).map(|index| row(name(index), &format!("m{index}"), index as f64)).collect();
        assert_eq!(at_most(rows.clone(), 40), rows);
        let fewer = at_most(rows.clone(), 20);
        assert_eq!(fewer.len(), 12);
        let is_apart = |row: &FinestRow| row.self_cpu_seconds >= 30.0 && !row.module.is_empty();
        assert!(fewer[..10].iter().all(is_apart));
        assert!(fewer[10..].iter().all(|row| row.calls == 15 * 3 && row.module.is_empty()));
        assert_eq!(sums(&fewer), sums(&rows));
    }

    #[test]
    fn there_are_never_more_rows_than_asked_for() {
        let rows: Vec<_> =
            (0..500).map(|index| row(&format!("op {index}"), "", index as f64)).collect();
        for most in [8, 100, 101] {
            let fewer = at_most(rows.clone(), most);
            assert!(fewer.len() <= most && fewer.len() >= most / 2, "{}", fewer.len());
            assert_eq!(sums(&fewer), sums(&rows));
            assert_eq!(fewer.iter().filter(|row| row.name == OTHERS).count(), 1);
        }
    }
}
