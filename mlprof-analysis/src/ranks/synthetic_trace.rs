//! Synthetic traces of ranks for tests. Times are in nanoseconds.

use crate::trace::{
    Category, ClockReading, Details, Info, Name, PlaceId, RawSlice, Trace, TraceBuilder,
};

/// Specification of a synthetic trace.
pub(super) struct SyntheticTrace<'a> {
    pub(super) rank: u32,
    pub(super) boot: &'a str,
    pub(super) base: i64,
    /// Clock readings: the trace's own time, the machine's monotonic clock, and the uncertainty.
    pub(super) clocks: &'a [(i64, i64, i64)],
    /// End times of collectives.
    pub(super) ends: &'a [i64],
    /// Actions of each step with their durations.
    pub(super) steps: &'a [&'a [(&'a str, i64)]],
}

impl SyntheticTrace<'_> {
    pub(super) fn rank(rank: u32) -> Self {
        Self { rank, boot: "one", base: 0, clocks: &[], ends: &[], steps: &[] }
    }
}

pub(super) fn made(of: SyntheticTrace<'_>) -> Trace {
    let mut builder = TraceBuilder::default();
    let clock = |(time, monotonic, error): &(i64, i64, i64)| ClockReading {
        time: *time,
        realtime: of.base + time,
        monotonic: Some(*monotonic),
        error: *error,
    };
    builder.info = Info {
        rank: of.rank,
        has_rank: true,
        world_size: 4,
        boot_id: Some(of.boot.to_owned()),
        base_ns: of.base,
        clocks: of.clocks.iter().map(clock).collect(),
        ..Info::default()
    };
    let track = builder.track(&PlaceId::Number(10), &PlaceId::Number(11));
    let mut slice = |name: &str, start: i64, duration: i64, collective: Option<u64>| {
        let name: Name = builder.names.intern(name);
        builder.slice(RawSlice {
            track,
            name,
            category: Category::UserAnnotation,
            start,
            duration,
            correlation: 0,
            details: Details { collective, ..Details::default() },
        });
    };
    for (number, end) in (0..).zip(of.ends) {
        slice("all_reduce_gradients", end - 10, 10, Some(number));
    }
    let mut now = 0;
    for (number, actions) in of.steps.iter().enumerate() {
        let length = actions.iter().map(|(_, duration)| duration).sum();
        slice(&format!("ProfilerStep#{number}"), now, length, None);
        for (name, duration) in *actions {
            let collective = name.starts_with("all_reduce").then_some(number as u64);
            slice(name, now, *duration, collective);
            now += duration;
        }
    }
    builder.finish()
}
