//! Comparison of ops with the roofs of the machine: `mlprof report --roofline` and `mlprof analyze
//! --roofline`.

mod devices;
mod of_report;
mod of_trace;
mod roofs;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde::Serialize;

pub(crate) use self::devices::Devices;
pub use self::devices::Error;
pub(crate) use self::of_report::of_report;
pub(crate) use self::of_trace::of_trace;
pub use self::roofs::Bound;
use self::roofs::Roofs;
pub(crate) use self::table::text;

/// Ops, modules and steps of a recording, compared with the roofs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Roofline {
    /// Machine and its peaks.
    pub(crate) roofs: String,
    /// Ops by name and type, longest first.
    pub(crate) ops: Vec<Row>,
    /// Modules, longest first. Empty if they were not recorded.
    pub(crate) modules: Vec<Row>,
    /// All recorded steps. `None` if their time is unknown.
    pub(crate) steps: Option<Steps>,
    /// Limits of the comparison.
    pub(crate) notes: Vec<String>,
}

/// An op or a module.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Type of the elements, if it is known.
    pub(crate) dtype: Option<&'static str>,
    pub(crate) calls: u64,
    /// Time of all calls in seconds: on the device if there is any, otherwise on the host.
    pub(crate) seconds: f64,
    /// Floating-point operations of all calls.
    pub(crate) flops: u64,
    /// Bytes that all calls read and write at least.
    pub(crate) bytes: u64,
    /// Least time that the roofs allow, in seconds.
    pub(crate) least_seconds: f64,
    /// `least_seconds` divided by `seconds`.
    pub(crate) roof_share: f64,
    pub(crate) bound_by: Bound,
}

/// All recorded steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Steps {
    pub(crate) steps: u64,
    pub(crate) seconds: f64,
    /// Time in ops whose work is known, in seconds.
    pub(crate) known_seconds: f64,
    /// Least time that the roofs allow for these ops, in seconds.
    pub(crate) least_seconds: f64,
    /// Floating-point operations divided by the peak of their type and the time of the steps.
    pub(crate) mfu: f64,
}

/// An op with one list of shapes.
#[derive(Debug, Clone, PartialEq)]
struct OpUse {
    name: String,
    dtype: Option<&'static str>,
    module: Option<String>,
    calls: u64,
    seconds: f64,
    /// Host time in seconds, which differs from `seconds` for work on a device.
    host_seconds: f64,
    is_on_device: bool,
    flops: u64,
    bytes: Option<u64>,
}

/// Limits of the ops, before they are combined to rows.
struct Limit {
    least_seconds: f64,
    is_compute: bool,
    /// Time at the peak of the op's type.
    compute_seconds: f64,
}

fn limit(op: &OpUse, roofs: &Roofs) -> Option<Limit> {
    let calls = op.calls.max(1) as f64;
    let rate = op.flops as f64 / op.seconds.max(1e-12);
    let peak = roofs.flops(op.dtype.unwrap_or("f32"), rate);
    let compute_seconds = match (op.flops, peak) {
        (0, _) => 0.0,
        (flops, Some(peak)) => flops as f64 / peak,
        (_, None) => return None,
    };
    let memory_seconds =
        op.bytes.map_or(0.0, |bytes| bytes as f64 / roofs.bandwidth(bytes as f64 / calls));
    (op.flops > 0 || op.bytes > Some(0)).then(|| Limit {
        least_seconds: compute_seconds.max(memory_seconds),
        is_compute: compute_seconds > memory_seconds,
        compute_seconds,
    })
}

/// Returns `true` for an op that reads values of a tensor, which waits for a device.
fn waits(name: &str) -> bool {
    let op = name.rsplit("::").next().unwrap_or(name);
    matches!(op, "_local_scalar_dense" | "item" | "to_scalar" | "into_data" | "into_scalar")
        || op.starts_with("to_vec")
}

/// Sum of the ops in a row.
#[derive(Default)]
struct Sum {
    calls: u64,
    seconds: f64,
    host_seconds: f64,
    flops: u64,
    bytes: u64,
    least_seconds: f64,
    compute_bound_seconds: f64,
    is_on_device: bool,
}

impl Sum {
    fn add(&mut self, op: &OpUse, limit: &Limit) {
        self.calls += op.calls;
        self.seconds += op.seconds;
        self.host_seconds += op.host_seconds;
        self.flops += op.flops;
        self.bytes += op.bytes.unwrap_or(0);
        self.least_seconds += limit.least_seconds;
        self.compute_bound_seconds += if limit.is_compute { limit.least_seconds } else { 0.0 };
        self.is_on_device |= op.is_on_device;
    }

    /// Returns the row. `empty_call` is the time of a call that does nothing.
    fn row(self, name: String, dtype: Option<&'static str>, empty_call: f64) -> Row {
        let calls = self.calls.max(1) as f64;
        let share = if self.seconds > 0.0 { self.least_seconds / self.seconds } else { 0.0 };
        let is_launch = share < 0.5
            && match self.is_on_device {
                // The device waits for the host.
                true => self.host_seconds > 2.0 * self.seconds,
                false => self.seconds / calls < 3.0 * empty_call,
            };
        let bound_by = if waits(&name) {
            Bound::Waiting
        } else if is_launch {
            Bound::Launch
        } else if self.compute_bound_seconds > self.least_seconds / 2.0 {
            Bound::Compute
        } else {
            Bound::Memory
        };
        Row {
            name,
            dtype,
            calls: self.calls,
            seconds: self.seconds,
            flops: self.flops,
            bytes: self.bytes,
            least_seconds: self.least_seconds,
            roof_share: share,
            bound_by,
        }
    }
}

/// Compares the ops with the roofs. `steps` has the number and the time of the recorded steps.
fn compare(
    ops: &[OpUse],
    roofs: &Roofs,
    steps: Option<(u64, f64)>,
    notes: Vec<String>,
) -> Roofline {
    let empty_call = empty_call(ops, roofs);
    let mut by_op: HashMap<(&str, Option<&'static str>), Sum> = HashMap::new();
    let mut by_module: HashMap<&str, Sum> = HashMap::new();
    let (mut known_seconds, mut least_seconds, mut compute_seconds) = (0.0, 0.0, 0.0);
    for op in ops {
        let Some(limit) = limit(op, roofs) else { continue };
        known_seconds += op.seconds;
        least_seconds += limit.least_seconds;
        compute_seconds += limit.compute_seconds;
        by_op.entry((&op.name, op.dtype)).or_default().add(op, &limit);
        if let Some(module) = &op.module {
            by_module.entry(module).or_default().add(op, &limit);
        }
    }
    let sorted = |mut rows: Vec<Row>| {
        rows.sort_by(|one, other| {
            other.seconds.total_cmp(&one.seconds).then_with(|| one.name.cmp(&other.name))
        });
        rows
    };
    let op_rows =
        by_op.into_iter().map(|((name, dtype), sum)| sum.row(name.to_owned(), dtype, empty_call));
    let module_rows =
        by_module.into_iter().map(|(name, sum)| sum.row(name.to_owned(), None, empty_call));
    Roofline {
        roofs: roofs.text(),
        ops: sorted(op_rows.collect()),
        modules: sorted(module_rows.collect()),
        steps: steps.filter(|(_, seconds)| *seconds > 0.0).map(|(steps, seconds)| Steps {
            steps,
            seconds,
            known_seconds,
            least_seconds,
            mfu: compute_seconds / seconds,
        }),
        notes,
    }
}

/// Returns the time of a call that does nothing: the fastest op of the recording that moves no
/// bytes, or else the measured call.
fn empty_call(ops: &[OpUse], roofs: &Roofs) -> f64 {
    let empty = ops.iter().filter(|op| op.bytes == Some(0) && op.calls > 0);
    let fastest = empty.map(|op| op.host_seconds / op.calls as f64).min_by(f64::total_cmp);
    fastest.or_else(|| roofs.empty_call()).unwrap_or(0.0)
}
