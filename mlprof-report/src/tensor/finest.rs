//! Ops told apart by all that was recorded of them, for whoever wants to put them together in another way.

use std::collections::HashMap;

use serde::Serialize;

use super::table::shapes_text;
use super::{KeyAverage, KeyAverages};
use crate::advanced::is_zero;
use mlprof_events::OrderExt;
use mlprof_events::{ActionKind, Phase};

/// A report has no more such rows.
pub const MOST_ROWS: usize = 4096;

/// One row of ops, kernels, actions or modules that have all of these in common. Times in seconds; memory
/// in bytes. What is left out in JSON is 0 or not known.
///
/// Calls, self times, memory and FLOPs of any rows add up, except the device time of a kernel,
/// which the row of its op has again. Totals of rows that contain each other contain the inner ones
/// twice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct FinestRow {
    /// The name, as in [`KeyAverage::name`].
    pub name: String,
    /// What it is, in its first call.
    pub kind: ActionKind,
    /// Whether it ran on a device.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_on_device: bool,
    /// The inputs as text: `[[64, 10], [10]]`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shapes: String,
    /// What is around, the innermost first, where the report's table has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// `path: Type` of the module.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// How many calls.
    pub calls: u64,
    /// Host time.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cpu_seconds: f64,
    /// Host time without what ran inside.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub self_cpu_seconds: f64,
    /// Time of kernels that it and what ran inside caused.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub device_seconds: f64,
    /// Time of kernels that it caused itself.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub self_device_seconds: f64,
    /// The first call; of several rows the longest.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub first_seconds: f64,
    /// The shortest of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_seconds: Option<f64>,
    /// The mean of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_seconds: Option<f64>,
    /// The longest of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// Allocated less freed on the host, without what ran inside.
    #[serde(default, skip_serializing_if = "is_balanced")]
    pub self_cpu_memory_bytes: i64,
    /// The same on devices.
    #[serde(default, skip_serializing_if = "is_balanced")]
    pub self_device_memory_bytes: i64,
    /// Allocated by itself, on all devices.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub allocated_bytes: u64,
    /// Floating-point operations.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flops: u64,
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
        }
    }
}

impl FinestRow {
    fn add(&mut self, other: &Self) {
        self.mean_seconds = match (self.mean_seconds, other.mean_seconds) {
            (Some(own), Some(others)) => {
                // A mean of means lies between the shortest and the longest of all.
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
    }

    fn own_seconds(&self) -> f64 {
        self.self_cpu_seconds.max(self.self_device_seconds)
    }
}

/// The rows of a table whose rows are told apart by all that there is.
pub fn finest_rows(averages: &KeyAverages) -> Vec<FinestRow> {
    at_most(averages.rows.iter().map(FinestRow::from).collect(), MOST_ROWS)
}

/// What stands for all rows for which there is no room, not even by name.
const OTHERS: &str = "(others)";

/// At most so many rows: the costliest ones of these, then one for each name of the others, of which nothing
/// else is known then, and one for all that is left. So what adds up still does.
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

// By reference, as serde asks for.
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
