//! Bandwidth of collectives, as defined by NCCL's tests.
//!
//! The message size of a collective is the size of its largest buffer. For all-reduce, broadcast
//! and reduce it is the buffer of one rank. For all-gather, reduce-scatter and all-to-all it is the
//! buffers of all ranks together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mlprof_report::ranks::median;
use rustc_hash::FxHashMap;

use super::work::Device;
use crate::answers::{CollectiveTimes, WorkKind};
use crate::classify::{Meanings, message};
use crate::trace::{Correlated, Message, Name, Trace};

/// Kind of collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Operation {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    Send,
    Receive,
}

impl Operation {
    /// Returns the operation with this name in a trace: `_allgather_base`, `allreduce_coalesced`, …
    fn of(name: &str) -> Option<Self> {
        let letters = name.chars().filter(char::is_ascii_alphabetic);
        let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        // Names that contain other names come first.
        let names = [
            ("allreduce", Self::AllReduce),
            ("allgather", Self::AllGather),
            ("reducescatter", Self::ReduceScatter),
            ("alltoall", Self::AllToAll),
            ("broadcast", Self::Broadcast),
            ("reduce", Self::Reduce),
            ("gather", Self::Gather),
            ("scatter", Self::Scatter),
            ("send", Self::Send),
            ("recv", Self::Receive),
        ];
        names.into_iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, operation)| operation)
    }

    fn text(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Send => "send",
            Self::Receive => "recv",
        }
    }

    /// Returns the number of elements of a message.
    fn elements(self, message: &Message) -> u64 {
        let (sent, received) = (message.in_elements, message.out_elements);
        let one_of = |first: u64, other: u64| if first > 0 { first } else { other };
        match self {
            Self::AllGather | Self::Gather => {
                one_of(received, sent.saturating_mul(message.group_size))
            }
            Self::ReduceScatter | Self::Scatter => {
                one_of(sent, received.saturating_mul(message.group_size))
            }
            // The elements of one rank may differ between the two directions.
            Self::AllToAll => sent.max(received),
            _ => one_of(sent, received),
        }
    }

    /// Returns the bus traffic per byte of the message.
    fn bus_factor(self, ranks: u64) -> Option<f64> {
        let of_others = (ranks > 1).then(|| (ranks - 1) as f64 / ranks as f64);
        match self {
            Self::AllReduce => of_others.map(|part| 2.0 * part),
            Self::AllGather
            | Self::ReduceScatter
            | Self::AllToAll
            | Self::Gather
            | Self::Scatter => of_others,
            Self::Broadcast | Self::Reduce | Self::Send | Self::Receive => Some(1.0),
        }
    }
}

/// Returns the size of an element type in bytes.
fn bytes_of(dtype: &str) -> Option<u64> {
    let dtype = dtype.rsplit("::").next().unwrap_or(dtype).to_ascii_lowercase();
    Some(match &*dtype {
        "complexdouble" | "complex128" => 16,
        "double" | "long" | "complexfloat" | "float64" | "int64" | "uint64" | "complex64" => 8,
        "float" | "int" | "complexhalf" | "float32" | "int32" | "uint32" => 4,
        "half" | "bfloat16" | "short" | "float16" | "int16" | "uint16" => 2,
        "byte" | "char" | "bool" | "int8" | "uint8" => 1,
        _ if dtype.starts_with("float8") => 1,
        _ => return None,
    })
}

/// Key by which collectives are grouped: operation, element type, message size, and size and name
/// of the group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Kind {
    operation: Operation,
    dtype: String,
    bytes: u64,
    group_size: u64,
    group: String,
    ranks: String,
}

impl Kind {
    fn of(message: Message) -> Option<Self> {
        let operation = Operation::of(&message.collective)?;
        let bytes = operation.elements(&message).checked_mul(bytes_of(&message.dtype)?)?;
        let listed = message.ranks.matches(',').count() as u64 + 1;
        let is_whole = message.ranks.starts_with('[') && !message.ranks.contains("...");
        let group_size = match message.group_size {
            0 if is_whole => listed,
            known => known,
        };
        let Message { dtype, group, ranks, .. } = message;
        (bytes > 0).then_some(Self { operation, dtype, bytes, group_size, group, ranks })
    }

    /// Returns `true` if every rank of the group takes part with the same number of bytes.
    pub(crate) fn has_all_ranks(&self) -> bool {
        !matches!(self.operation, Operation::Send | Operation::Receive | Operation::AllToAll)
    }
}

/// One collective of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Collective {
    /// Index in [`Collectives::kinds`].
    pub(crate) kind: usize,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// Collectives of a device with known messages, ordered by start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collectives {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) all: Vec<Collective>,
}

impl Collectives {
    pub(crate) fn of(
        trace: &Trace,
        meanings: &Meanings,
        correlations: &FxHashMap<u32, Correlated>,
        device: &Device,
    ) -> Self {
        let mut found = Self::default();
        let mut known: FxHashMap<Name, Option<usize>> = FxHashMap::default();
        // Kernels launched by one PyTorch call belong to one collective.
        let mut by_call: FxHashMap<(usize, usize), usize> = FxHashMap::default();
        let of_devices = device.slices(trace);
        for slice in of_devices.filter(|it| meanings.work(it) == Some(WorkKind::Communication)) {
            let call = correlations.get(&slice.correlation).filter(|_| slice.correlation != 0);
            let call = call.and_then(|it| it.call).map(|call| &trace.slices[call as usize]);
            let place = call.and_then(|call| meanings.described(call.parent()?));
            let found_in = |place: Option<usize>| message(trace, &trace.slices[place?]);
            let text = message(trace, slice).or_else(|| found_in(place));
            let Some(message) = text else { continue };
            let kinds = &mut found.kinds;
            let kind = *known.entry(message).or_insert_with(|| {
                let kind = Kind::of(Message::of(trace.names.text(message))?)?;
                kinds.push(kind);
                Some(kinds.len() - 1)
            });
            let Some(kind) = kind else { continue };
            let new = Collective { kind, start: slice.start, end: slice.end() };
            let number = found.all.len();
            let first = match place {
                Some(place) => *by_call.entry((place, kind)).or_insert(number),
                None => number,
            };
            match found.all.get_mut(first) {
                Some(one) => {
                    (one.start, one.end) = (one.start.min(new.start), one.end.max(new.end));
                }
                None => found.all.push(new),
            }
        }
        found.all.sort_by_key(|one| (one.start, one.end));
        found
    }
}

/// Returns the table rows of collectives, grouped by kind, longest total time first.
pub(crate) fn rows<'a>(durations: impl Iterator<Item = (&'a Kind, i64)>) -> Vec<CollectiveTimes> {
    let mut by_kind: BTreeMap<&Kind, Vec<i64>> = BTreeMap::new();
    for (kind, duration) in durations.filter(|(_, duration)| *duration > 0) {
        by_kind.entry(kind).or_default().push(duration);
    }
    let mut rows: Vec<CollectiveTimes> =
        by_kind.into_iter().map(|(kind, durations)| row(kind, durations)).collect();
    rows.sort_by_key(|row| Reverse(row.total_ns));
    rows
}

fn row(kind: &Kind, mut durations: Vec<i64>) -> CollectiveTimes {
    durations.sort_unstable();
    let (last, median) = (durations.len() - 1, median(durations.clone()));
    // Bytes per nanosecond equal gigabytes per second.
    let rate = |duration: i64| kind.bytes as f64 / duration.max(1) as f64;
    let factor = kind.operation.bus_factor(kind.group_size);
    CollectiveTimes {
        collective: kind.operation.text().to_owned(),
        dtype: kind.dtype.clone(),
        group: kind.group.clone(),
        group_size: kind.group_size,
        message_bytes: kind.bytes,
        count: durations.len() as u64,
        total_ns: durations.iter().sum(),
        shortest_ns: durations[0],
        median_ns: median,
        longest_ns: durations[last],
        algorithm_gb_per_s: rate(median),
        bus_gb_per_s: factor.map(|factor| factor * rate(median)),
        most_bus_gb_per_s: factor.map(|factor| factor * rate(durations[0])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(collective: &str, dtype: &str, sent: u64, received: u64) -> Message {
        Message {
            collective: collective.to_owned(),
            dtype: dtype.to_owned(),
            in_elements: sent,
            out_elements: received,
            group_size: 8,
            ..Message::default()
        }
    }

    /// Returns the message size in bytes and the bus factor.
    fn known(collective: &str, dtype: &str, sent: u64, received: u64) -> Option<(u64, f64)> {
        let kind = Kind::of(message(collective, dtype, sent, received))?;
        Some((kind.bytes, kind.operation.bus_factor(kind.group_size)?))
    }

    #[test]
    fn sizes_and_factors_are_those_of_nccls_tests() {
        let part = 7.0 / 8.0;
        for (name, dtype, sent, received, expected) in [
            ("allreduce", "Float", 100, 100, (400, 2.0 * part)),
            ("allreduce_coalesced", "c10::BFloat16", 100, 100, (200, 2.0 * part)),
            ("_allgather_base", "BFloat16", 25_136, 201_088, (402_176, part)),
            ("all_gather_into_tensor_coalesced", "Half", 10, 0, (160, part)),
            ("_reduce_scatter_base", "Float", 800, 100, (3_200, part)),
            ("reduce_scatter_tensor_coalesced", "Float", 0, 100, (3_200, part)),
            ("all_to_all", "Double", 64, 64, (512, part)),
            ("all_to_allv", "Byte", 60, 64, (64, part)),
            ("_broadcast_oop", "Long", 5, 5, (40, 1.0)),
            ("_reduce_oop", "Int", 5, 5, (20, 1.0)),
            ("send", "Float8_e4m3fn", 5, 5, (5, 1.0)),
            ("recv", "Bool", 0, 5, (5, 1.0)),
        ] {
            assert_eq!(known(name, dtype, sent, received), Some(expected), "{name}");
        }
        for (name, dtype) in [("wait", "Float"), ("barrier", "Float"), ("allreduce", "Quaternion")]
        {
            assert_eq!(known(name, dtype, 1, 1), None, "{name} {dtype}");
        }
        assert_eq!(known("allreduce", "Float", 0, 0), None);
    }

    #[test]
    fn the_size_of_a_group_is_known_by_its_ranks() {
        let of = |ranks: &str| {
            let ranks = ranks.to_owned();
            let message = Message { group_size: 0, ranks, ..message("allreduce", "Float", 1, 1) };
            Kind::of(message).map(|kind| kind.group_size)
        };
        assert_eq!(of("[0, 2, 4, 6]"), Some(4));
        assert_eq!((of("[0, 1, 2, ..., 1023]"), of("")), (Some(0), Some(0)));
        assert_eq!(Operation::AllReduce.bus_factor(0), None);
        assert_eq!(Operation::AllReduce.bus_factor(1), None);
    }
}
