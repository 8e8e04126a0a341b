//! Track descriptors of processes, threads, streams and counters.

use std::hash::{Hash, Hasher};
use std::io::{self, Write};

use rustc_hash::{FxHashMap, FxHasher};

use super::messages::{CounterDescriptor, ProcessDescriptor, ThreadDescriptor, TrackDescriptor};
use super::packets::Packets;
use super::slices::{LEVELS, deepest};
use crate::trace::{Name, Trace, Track, TrackKind};

/// Track ids of the trace.
pub(super) struct Tracks<'a> {
    trace: &'a Trace,
    next: u64,
    processes: Vec<u64>,
    tracks: Vec<u64>,
}

impl<'a> Tracks<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        // Users may load traces of several ranks together, so their track ids must differ.
        let mut hash = FxHasher::default();
        let info = &trace.info;
        (info.rank, info.cycle, &info.host, info.base_ns, trace.window()).hash(&mut hash);
        Self { trace, next: hash.finish() | 1, processes: Vec::new(), tracks: Vec::new() }
    }

    fn uuid(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1).max(1);
        self.next
    }

    fn is_device(&self, process: usize) -> bool {
        let trace = self.trace;
        let is_its = |track: &&Track| track.process as usize == process;
        let mut of_it = trace.tracks.iter().filter(is_its).peekable();
        let has_label = trace.names.text(trace.processes[process].labels).starts_with("GPU");
        let is_of_streams = of_it.peek().is_some() && of_it.all(|it| it.kind == TrackKind::Stream);
        has_label || is_of_streams
    }

    pub(super) fn describe_processes<W: Write>(
        &mut self,
        packets: &mut Packets<W>,
    ) -> io::Result<()> {
        let trace = self.trace;
        for (place, process) in trace.processes.iter().enumerate() {
            let uuid = self.uuid();
            self.processes.push(uuid);
            let (name, labels) = (trace.names.text(process.name), trace.names.text(process.labels));
            let number = process.number.and_then(|number| i32::try_from(number).ok());
            let mut track = TrackDescriptor { uuid: Some(uuid), ..Default::default() };
            match number.filter(|_| !self.is_device(place)) {
                Some(pid) => {
                    let process_labels = labels.to_owned();
                    track.process = Some(ProcessDescriptor {
                        pid: Some(pid),
                        process_name: Some(name.to_owned()),
                        process_labels: Some(process_labels)
                            .filter(|it| !it.is_empty())
                            .into_iter()
                            .collect(),
                    });
                }
                // A device has no process id of its own, because its process 0 would be another
                // process.
                None => track.name = Some(device_name(name, labels, process.number)),
            }
            packets.describe(track)?;
        }
        Ok(())
    }

    /// Writes the descriptors of a track. Returns the Perfetto track of each nesting level together
    /// with the level.
    pub(super) fn describe_track<W: Write>(
        &mut self,
        place: usize,
        packets: &mut Packets<W>,
    ) -> io::Result<Vec<(u64, usize)>> {
        let trace = self.trace;
        let track = &trace.tracks[place];
        let process = &trace.processes[track.process as usize];
        let name = trace.names.text(track.name).to_owned();
        let above = match track.overlaps {
            Some(crossed) => self.tracks[crossed as usize],
            None => self.processes[track.process as usize],
        };
        let small = |number: Option<i64>| number.and_then(|number| i32::try_from(number).ok());
        let uuid = self.uuid();
        self.tracks.push(uuid);
        let mut described = TrackDescriptor { uuid: Some(uuid), ..Default::default() };
        let is_thread = track.kind == TrackKind::Thread && track.overlaps.is_none();
        match (small(process.number), small(track.number)) {
            (Some(pid), Some(tid)) if is_thread => {
                described.thread = Some(ThreadDescriptor {
                    pid: Some(pid),
                    tid: Some(tid),
                    thread_name: Some(name.clone()),
                });
            }
            _ => {
                described.name = Some(name.clone());
                described.parent_uuid = Some(above);
                described.sibling_order_rank = i32::try_from(place).ok();
            }
        }
        packets.describe(described)?;
        let mut all = vec![(uuid, 0)];
        for level in 1..=deepest(trace, track) / LEVELS {
            let further = self.uuid();
            packets.describe(TrackDescriptor {
                uuid: Some(further),
                parent_uuid: Some(uuid),
                name: Some(format!("{name} (inside of {} others)", level * LEVELS)),
                ..Default::default()
            })?;
            all.push((further, level));
        }
        Ok(all)
    }

    /// Writes a descriptor for each counter of each process.
    pub(super) fn describe_counters<W: Write>(
        &mut self,
        packets: &mut Packets<W>,
    ) -> io::Result<FxHashMap<(u32, Name), u64>> {
        let trace = self.trace;
        let mut uuids = FxHashMap::default();
        for counter in &trace.counters {
            let key = (counter.process, counter.name);
            if uuids.contains_key(&key) {
                continue;
            }
            let uuid = self.uuid();
            uuids.insert(key, uuid);
            packets.describe(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid: Some(self.processes[counter.process as usize]),
                name: Some(trace.names.text(counter.name).to_owned()),
                counter: Some(CounterDescriptor {}),
                ..Default::default()
            })?;
        }
        Ok(uuids)
    }
}

/// Returns `GPU 0` or a similar label, followed by the program that used the device.
fn device_name(name: &str, labels: &str, number: Option<i64>) -> String {
    let own = match (labels, number) {
        ("", Some(number)) => format!("GPU {number}"),
        (labels, _) => labels.to_owned(),
    };
    match (name, own.as_str()) {
        ("", _) => own,
        (name, "") => name.to_owned(),
        (name, _) => format!("{own} ({name})"),
    }
}
