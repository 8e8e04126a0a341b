//! XProf planes of devices.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Source;
use super::messages::{XEvent, XPlane};
use super::plane::{EventName, Plane};
use crate::trace::{Category, TrackKind};
use crate::vendor::Vendor;

/// Launch configuration for kernels whose trace has none. XProf shows no row for a kernel without
/// it.
const NOT_KNOWN: &str = "regs:0 static_shared:0 dynamic_shared:0 grid:0,0,0 block:0,0,0 occ_pct:0";

/// Returns one plane per device, ordered by device id.
pub(super) fn planes(source: &Source<'_>) -> Vec<XPlane> {
    let ops = ops_of_launches(source);
    let of_calls = Vendor::of_calls(source.trace);
    let mut planes = BTreeMap::new();
    for (place, track) in source.trace.tracks.iter().enumerate() {
        if track.kind != TrackKind::Stream {
            continue;
        }
        let device = source.trace.processes[track.process as usize].number.unwrap_or(0);
        let plane = planes.entry(device).or_insert_with(|| {
            let described = source.trace.info.devices.iter();
            let mut described = described.filter(|it| i64::from(it.number) == device);
            let named = described.find_map(|it| Vendor::of_product(&it.name));
            of_device(device, named.or(of_calls).map_or("unknown", in_xprof))
        });
        let slices = track.slices.clone();
        let work = slices.filter(|place| source.trace.slices[*place].category.is_device_work());
        let events = work.map(|place| event(source, place, &ops, plane)).collect();
        plane.line(source.line(place, track, events));
    }
    planes.into_values().map(Plane::finish).collect()
}

/// Returns the vendor's name in XProf.
fn in_xprof(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => "Nvidia",
        Vendor::Amd => "AMD",
        Vendor::Intel => "Intel",
    }
}

fn of_device(device: i64, vendor: &str) -> Plane {
    // Plane ids 0 and 1 are taken.
    let mut plane = Plane::new(device.saturating_add(2), format!("/device:GPU:{device}"));
    // XProf shows "Nvidia GPU" and "AMD GPU", and "GPU" for other vendors.
    let vendor = plane.text("device_vendor", vendor);
    plane.say(vendor);
    plane
}

/// Returns the innermost op around each launch call, by correlation id.
fn ops_of_launches(source: &Source<'_>) -> FxHashMap<u32, usize> {
    let slices = source.trace.slices.iter().enumerate();
    let calls = slices.filter(|(_, slice)| slice.correlation != 0 && slice.category.is_runtime());
    let of_call =
        calls.filter_map(|(place, call)| Some((call.correlation, source.meanings.op(place)?)));
    of_call.collect()
}

fn event(
    source: &Source<'_>,
    place: usize,
    ops: &FxHashMap<u32, usize>,
    plane: &mut Plane,
) -> XEvent {
    let slice = &source.trace.slices[place];
    let own = source.trace.name(slice);
    let id = match slice.category {
        Category::GpuMemcpy => {
            plane.event(EventName::Copy(slice.name), || (copy(own).to_owned(), own.to_owned()))
        }
        _ => plane.event(EventName::Own(slice.name), || (own.to_owned(), own.to_owned())),
    };
    let mut event = source.event(slice, id);
    if slice.correlation != 0 {
        event.stats.push(plane.number("correlation_id", slice.correlation.into()));
        if let Some(op) = ops.get(&slice.correlation) {
            event.stats.push(plane.text("tf_op", &source.op(*op)));
        }
    }
    let details = source.trace.details(slice);
    if slice.category == Category::Kernel {
        let launch = details.map_or("", |details| source.trace.names.text(details.launch));
        let launch = if launch.is_empty() { NOT_KNOWN } else { launch };
        event.stats.push(plane.text("kernel_details", launch));
    }
    let bytes = details.map_or(0, |details| details.bytes);
    if slice.category == Category::GpuMemcpy && bytes > 0 {
        let details = format!("{} size:{bytes} dest:0 async:1", kinds(own));
        event.stats.push(plane.text("memcpy_details", &details));
    }
    event
}

/// Converts Kineto's name, such as `Memcpy HtoD (Pageable -> Device)`, to the prefix by which XProf
/// classifies copies.
fn copy(name: &str) -> &'static str {
    match direction(name) {
        Some(('H', 'D')) => "MemcpyHToD",
        Some(('D', 'H')) => "MemcpyDToH",
        Some(('H', 'H')) => "MemcpyHToH",
        Some(('P', 'P')) => "MemcpyP2P",
        _ => "MemcpyDToD",
    }
}

fn kinds(name: &str) -> String {
    let kind = |letter| if letter == 'H' { "host" } else { "device" };
    let (from, to) = direction(name).unwrap_or(('D', 'D'));
    format!("kind_src:{} kind_dst:{}", kind(from), kind(to))
}

fn direction(name: &str) -> Option<(char, char)> {
    let mut words = name.split_whitespace();
    let letters: Vec<char> = words.nth(1)?.chars().collect();
    match letters.as_slice() {
        [from, 't', 'o', to] | [from, '2', to] => Some((*from, *to)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_told_by_their_direction() {
        assert_eq!(copy("Memcpy HtoD (Pageable -> Device)"), "MemcpyHToD");
        assert_eq!(copy("Memcpy DtoH (Device -> Pinned)"), "MemcpyDToH");
        assert_eq!(copy("Memcpy P2P"), "MemcpyP2P");
        assert_eq!(copy("copy"), "MemcpyDToD");
        assert_eq!(kinds("Memcpy DtoH (Device -> Pinned)"), "kind_src:device kind_dst:host");
    }
}
