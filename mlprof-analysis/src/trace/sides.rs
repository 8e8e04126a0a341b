//! Threads and streams that share a number.
//!
//! Kineto numbers devices from 0 as processes, and a container numbers its processes from 1: both
//! may have the number 1. Categories of slices state on which side of it they are.

use rustc_hash::FxHashMap;

use super::raw::RawTrack;
use super::{Name, Slice, TrackKind};

/// Moves the device's slices of tracks that hold those of a thread as well to tracks of their own,
/// which follow the others. Returns the new track of each old one.
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
