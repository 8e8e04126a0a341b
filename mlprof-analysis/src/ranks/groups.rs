//! Kernels that no rank of a group leaves before all of them have joined, and the identity of that
//! group.

use std::borrow::Cow;

use crate::classify::{Meanings, message};
use crate::trace::{Message, Slice, Trace};

/// Operations that all ranks of the group take part in and wait for.
const JOINED_BY_ALL: [&str; 5] = ["allreduce", "allgather", "reducescatter", "alltoall", "barrier"];
/// Operations that some ranks leave early, because only two ranks exchange data or one rank sends
/// to the others.
const LEFT_EARLY: [&str; 6] = ["send", "recv", "broadcast", "reduce", "gather", "scatter"];

/// Returns a text that identifies the kernel's operation and group on all of its ranks. `None` if
/// some rank can leave the operation before others join, or if the group is unknown.
///
/// `call` is the slice index of the launch. If the kernel has no message, the message comes from
/// the ops around the launch.
pub(crate) fn joined_by_all(
    trace: &Trace,
    meanings: &Meanings,
    kernel: &Slice,
    call: Option<u32>,
) -> Option<String> {
    let around = || meanings.described(trace.slices[call? as usize].parent()?);
    let found = message(trace, kernel).or_else(|| message(trace, &trace.slices[around()?]));
    let message = found.and_then(|message| Message::of(trace.names.text(message)));
    let message = message.unwrap_or_default();
    let name = trace.name(kernel);
    let operation = match message.collective.as_str() {
        // Arguments are removed because they differ between builds of the library.
        "" => name.split_once('(').map_or(name, |(name, _)| name),
        operation => operation,
    };
    let letters = operation.chars().filter(char::is_ascii_alphanumeric);
    let plain: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    let contains_any = |names: &[&str]| names.iter().any(|name| plain.contains(name));
    if !contains_any(&JOINED_BY_ALL) && contains_any(&LEFT_EARLY) {
        return None;
    }
    Some(format!("{operation} of {}", group(&message, trace.info.world_size)?))
}

/// Returns the identity of a group. `None` if it does not distinguish the members from other ranks.
fn group(message: &Message, world_size: u32) -> Option<Cow<'static, str>> {
    let Message { group: name, ranks, .. } = message;
    // PyTorch shortens long lists: `[0, 1, ..., 99]`.
    let is_whole = !ranks.is_empty() && !ranks.contains("..");
    let mut members: Vec<u32> = Vec::new();
    if is_whole {
        let numbers = ranks.split(|letter: char| !letter.is_ascii_digit());
        members = numbers.filter_map(|number| number.parse().ok()).collect();
        members.sort_unstable();
        members.dedup();
    }
    let size = match members.len() {
        0 => message.group_size,
        members => members as u64, // fewer than letters of a text
    };
    match (size, u64::from(world_size)) {
        (1, _) => None,
        (0, _) if name.is_empty() => Some("all ranks".into()),
        (size, world) if size > 0 && size == world => Some("all ranks".into()),
        _ if !members.is_empty() => Some(format!("ranks {members:?}").into()),
        _ if !name.is_empty() => Some(format!("group {name}").into()),
        _ => None,
    }
}
