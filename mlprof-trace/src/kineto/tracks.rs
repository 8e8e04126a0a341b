//! The tracks of a trace: their numbers and names.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};

use super::Writer;
use crate::cycle::Cycle;

/// Numbers that operating systems give to threads are below this one on Linux.
const FIRST_OWN: u64 = 1 << 22;
/// The stream that stands for a device's default one, as in traces of CUDA.
const DEFAULT_STREAM: u64 = 7;
/// Devices are shown below all threads.
const DEVICES_SORT_FROM: u64 = 5_000_000;

/// Who has which number, and what it is called.
pub(super) struct Tracks {
    /// The number of the host's process.
    pub(super) process: u64,
    /// The numbers of devices.
    pub(super) devices: BTreeSet<u32>,
    /// The number of the default stream of devices where it is not 7.
    default_streams: HashMap<u32, u64>,
    /// Process, track and name, in the order in which they are to be shown.
    named: Vec<(u64, u64, String)>,
    next_own: u64,
}

impl Tracks {
    pub(super) fn new(cycle: &Cycle) -> Self {
        let worked = cycle.device_events.iter().map(|event| event.device);
        let asked = cycle.device_counters.iter().map(|sample| sample.device);
        let devices: BTreeSet<u32> = worked.chain(asked).collect();
        let process = u64::from(mlprof_events::process_id());
        // In a container the process may have the number of a device.
        let is_device = devices.iter().any(|device| u64::from(*device) == process);
        let process = if is_device { process + FIRST_OWN } else { process };
        let last = cycle.tracks().iter().map(|track| track.thread).max().unwrap_or(0);
        Self {
            process,
            default_streams: default_streams(cycle),
            devices,
            named: Vec::new(),
            next_own: last.max(FIRST_OWN).saturating_add(1),
        }
    }

    /// Streams are counted from 1.
    pub(super) fn stream(&self, device: u32, stream: u32) -> u64 {
        match stream {
            0 => self.default_streams.get(&device).copied().unwrap_or(DEFAULT_STREAM),
            stream => u64::from(stream),
        }
    }

    /// Gives a track its name.
    pub(super) fn name(&mut self, process: u64, track: u64, name: String) {
        self.named.push((process, track, name));
    }

    /// The number of a further track, of what crosses something on track `name`.
    pub(super) fn further(&mut self, process: u64, name: &str) -> u64 {
        let number = self.next_own;
        self.next_own += 1;
        self.name(process, number, name.to_owned());
        number
    }
}

/// 7, unless a device has such a stream besides.
fn default_streams(cycle: &Cycle) -> HashMap<u32, u64> {
    let streams = cycle.device_events.iter().map(|event| (event.device, u64::from(event.stream)));
    let streams: HashSet<(u32, u64)> = streams.collect();
    let collides = |(device, stream): &&(u32, u64)| {
        *stream == DEFAULT_STREAM && streams.contains(&(*device, 0))
    };
    let free = |(device, _): &(u32, u64)| {
        let last = streams.iter().filter(|(other, _)| other == device).map(|(_, stream)| stream);
        (*device, last.max().map_or(DEFAULT_STREAM, |last| last + 1))
    };
    streams.iter().filter(collides).map(free).collect()
}

impl<W: Write> Writer<'_, W> {
    /// The names of all processes and tracks.
    pub(super) fn track_names(&mut self) -> io::Result<()> {
        let program = mlprof_events::program_name().unwrap_or_else(|| "program".to_owned());
        let process = self.tracks.process;
        self.process(process, &program, "CPU", process)?;
        for device in self.tracks.devices.clone() {
            let sort = DEVICES_SORT_FROM + u64::from(device);
            self.process(u64::from(device), &program, &format!("GPU {device}"), sort)?;
        }
        for (sort, (process, track, name)) in (1..).zip(std::mem::take(&mut self.tracks.named)) {
            self.text_of("thread_name", (process, track), &name)?;
            self.sort_index("thread_sort_index", (process, track), sort)?;
        }
        Ok(())
    }

    fn process(&mut self, process: u64, program: &str, labels: &str, sort: u64) -> io::Result<()> {
        self.text_of("process_name", (process, 0), program)?;
        self.text_of("process_labels", (process, 0), labels)?;
        self.sort_index("process_sort_index", (process, 0), sort)
    }

    fn text_of(&mut self, what: &str, place: (u64, u64), text: &str) -> io::Result<()> {
        self.metadata(what, place)?;
        let argument = if what == "process_labels" { "labels" } else { "name" };
        self.json.string(argument);
        self.json.raw(":");
        self.json.string(text);
        self.json.raw("}}");
        Ok(())
    }

    fn sort_index(&mut self, what: &str, place: (u64, u64), index: u64) -> io::Result<()> {
        self.metadata(what, place)?;
        self.json.raw("\"sort_index\":");
        self.json.integer(index);
        self.json.raw("}}");
        Ok(())
    }

    fn metadata(&mut self, what: &str, (process, track): (u64, u64)) -> io::Result<()> {
        self.separate()?;
        self.json.raw("{\"ph\":\"M\",\"name\":");
        self.json.string(what);
        self.place(process, track, self.offset);
        self.json.raw(",\"args\":{");
        Ok(())
    }
}
