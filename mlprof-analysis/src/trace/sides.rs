//! Separation of threads and streams that share a number.
//!
//! Kineto writes devices as processes numbered from 0, and a container numbers its processes
//! from 1. A device and a process can therefore have the same number. The categories of slices
//! distinguish the two.

use rustc_hash::FxHashMap;

use super::raw::RawTrack;
use super::{Name, Slice, TrackKind};

/// Moves device slices from tracks that also contain thread slices to new tracks at the end of the
/// list. Returns the new track of each such track.
pub(super) fn split(tracks: &mut Vec<RawTrack>, slices: &mut [Slice]) -> FxHashMap<u32, u32> {
    let mut twins = FxHashMap::default();
    for place in 0..tracks.len() {
        let track = &tracks[place];
        if track.kind.is_none() && track.has_device_work && track.has_host_work {
            let twin = RawTrack {
                process: track.process,
                id: track.id.clone(),
                name: Name::EMPTY,
                kind: Some(TrackKind::Stream),
                ..RawTrack::default()
            };
            twins.insert(place as u32, tracks.len() as u32); // fewer than 2^32
            tracks.push(twin);
            tracks[place].kind = Some(TrackKind::Thread);
        }
    }
    if twins.is_empty() {
        return twins;
    }
    for slice in slices.iter_mut().filter(|slice| slice.category.is_on_device()) {
        if let Some(twin) = twins.get(&slice.track) {
            tracks[slice.track as usize].slices -= 1;
            tracks[*twin as usize].slices += 1;
            slice.track = *twin;
        }
    }
    twins
}
