//! Roofs: the peaks that limit an op.

use super::devices::{Device, Devices};
use crate::machine::{BandwidthPoint, Peaks};

/// Resource that limits an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Memory bandwidth.
    Memory,
    /// Arithmetic.
    Compute,
    /// The cost of a call: the op takes about as long as one that does nothing.
    Launch,
    /// The op waits for a device.
    Waiting,
}

impl Bound {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
            Self::Launch => "launch",
            Self::Waiting => "waiting",
        }
    }
}

/// Roofs of a processor with a number of threads, or of an accelerator.
pub(super) enum Roofs {
    Processor { peaks: Box<Peaks>, threads: u64 },
    Device(Device),
}

/// Returns the peaks of this machine, or an error that states how to measure them.
pub(super) fn measured(kept: Option<Peaks>) -> Result<Peaks, String> {
    kept.ok_or_else(|| {
        "the peaks of this machine are not measured; run `mlprof machine`".to_owned()
    })
}

impl Roofs {
    /// Returns the roofs of the device with this name, or an error that states how to add them.
    pub(super) fn of_device(name: &str, devices: &Devices) -> Result<Self, String> {
        devices.find(name).map(|device| Self::Device(device.clone())).ok_or_else(|| {
            format!(
                "the peaks of the device \"{name}\" are unknown; add them to a file and pass it \
                 with --devices"
            )
        })
    }

    /// Returns the floating-point operations per second for a type. `rate` is the achieved one: a
    /// device that exceeds its f32 peak computes with TF32.
    pub(super) fn flops(&self, dtype: &str, rate: f64) -> Option<f64> {
        match self {
            Self::Processor { peaks, threads } => {
                // There is no kernel for other types, which processors rarely compute faster.
                let dtype = if dtype == "f64" { "f64" } else { "f32" };
                let of = |threads: u64| {
                    let mut all = peaks.products.iter();
                    let peak = all.find(|peak| peak.threads == threads && peak.dtype == dtype)?;
                    Some(peak.flops.per_second)
                };
                let (one, all) = (of(1)?, of(peaks.processor.cores)?);
                Some(between(one, all, *threads, peaks.processor.cores))
            }
            Self::Device(device) => {
                let of = |dtype: &str| device.flops.get(dtype).copied();
                match dtype {
                    "f32" => of("f32").filter(|peak| rate <= *peak).or_else(|| of("tf32")),
                    dtype => of(dtype),
                }
            }
        }
    }

    /// Returns the bytes per second for a working set: those of the fastest kind of transfer.
    pub(super) fn bandwidth(&self, working_set: f64) -> f64 {
        match self {
            Self::Processor { peaks, threads } => {
                let cores = peaks.processor.cores;
                let of = |threads: u64| {
                    let points = peaks.bandwidth.iter().filter(|point| point.threads == threads);
                    interpolated(points, working_set)
                };
                between(of(1), of(cores), *threads, cores)
            }
            Self::Device(device) => device.bandwidth,
        }
    }

    /// Returns the cost of an empty call in seconds, if it was measured.
    pub(super) fn empty_call(&self) -> Option<f64> {
        match self {
            Self::Processor { peaks, .. } => Some(peaks.empty_call_seconds),
            Self::Device(_) => None,
        }
    }

    /// Describes the roofs in one line.
    pub(super) fn text(&self) -> String {
        let giga = |number: Option<f64>| number.unwrap_or(0.0) / 1e9;
        match self {
            Self::Processor { peaks, threads } => {
                let plural = if *threads == 1 { "" } else { "s" };
                format!(
                    "{}, {threads} thread{plural}: {:.0} GFLOP/s in f32, {:.0} in f64; {:.0} GB/s \
                     from cache, {:.0} GB/s from memory",
                    peaks.processor.cpu.as_deref().unwrap_or("this processor"),
                    giga(self.flops("f32", 0.0)),
                    giga(self.flops("f64", 0.0)),
                    self.bandwidth(0.0) / 1e9,
                    self.bandwidth(1e12) / 1e9,
                )
            }
            Self::Device(device) => {
                let mut flops: Vec<_> = device.flops.iter().collect();
                flops.sort_by(|one, other| one.1.total_cmp(other.1).then(one.0.cmp(other.0)));
                let flops: Vec<_> = flops
                    .iter()
                    .map(|(dtype, peak)| format!("{:.0} in {dtype}", *peak / 1e12))
                    .collect();
                format!(
                    "{}, as its maker states: {:.2} TB/s; TFLOP/s: {}",
                    device.name,
                    device.bandwidth / 1e12,
                    flops.join(", ")
                )
            }
        }
    }
}

/// Interpolates between one thread and all cores.
fn between(one: f64, all: f64, threads: u64, cores: u64) -> f64 {
    if cores <= 1 {
        return one;
    }
    let share = (threads.clamp(1, cores) - 1) as f64 / (cores - 1) as f64;
    one + (all - one) * share
}

/// Interpolates between the working sets of a curve, on a logarithmic scale.
fn interpolated<'a>(points: impl Iterator<Item = &'a BandwidthPoint>, working_set: f64) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for point in points {
        let (size, rate) = (point.working_set_bytes as f64, point.best());
        if working_set <= size {
            let Some((smaller, faster)) = before else { return rate };
            let share = (working_set / smaller).ln() / (size / smaller).ln();
            return faster + (rate - faster) * share;
        }
        before = Some((size, rate));
    }
    before.map_or(0.0, |(_, rate)| rate)
}
