//! Kernels that no rank of a group leaves before all of them have joined, and the group's identity.

use std::borrow::Cow;

use crate::meaning::{Meanings, message};
use crate::trace::{Message, Slice, Trace};

/// Operations that every rank of the group takes part in and waits for.
const JOINED_BY_ALL: [&str; 5] = ["allreduce", "allgather", "reducescatter", "alltoall", "barrier"];
/// Operations that some ranks leave early: two of them exchange something, or one sends to the
/// others.
const LEFT_EARLY: [&str; 6] = ["send", "recv", "broadcast", "reduce", "gather", "scatter"];

/// Returns a text that the kernel has on all ranks that took part in it, and on no other. `None` if
/// some rank may leave the operation before others join, or if the group is not known.
///
/// `call`: the place of the launch. Where the kernel has no description of the operation, the ops
/// around the launch have it.
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
        // Without its arguments, which differ between builds of the library.
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

/// Returns the group's identity. `None` if ranks outside of it cannot be told from its members.
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
