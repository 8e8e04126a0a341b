//! Numbers and names of a trace's tracks.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};

use super::Writer;
use crate::cycle::Cycle;

/// First track number of our own. Thread ids of the operating system are smaller on Linux.
const FIRST_OWN: u64 = 1 << 22;
/// Stream number for a device's default stream, as in traces of CUDA.
const DEFAULT_STREAM: u64 = 7;
/// Sort index of the first device, so that devices are shown below all threads.
const DEVICES_SORT_FROM: u64 = 5_000_000;

/// Assigned track numbers and their names.
pub(super) struct Tracks {
    /// Number of the host's process.
    pub(super) process: u64,
    /// Numbers of the devices.
    pub(super) devices: BTreeSet<u32>,
    /// Number of the default stream, for devices with a number other than 7.
    default_streams: HashMap<u32, u64>,
    /// Process, track and name, in display order.
    named: Vec<(u64, u64, String)>,
    next_own: u64,
}

impl Tracks {
    pub(super) fn new(cycle: &Cycle) -> Self {
        let worked = cycle.device_events.iter().map(|event| event.device);
        let asked = cycle.device_counters.iter().map(|sample| sample.device);
        let devices: BTreeSet<u32> = worked.chain(asked).collect();
        let process = u64::from(mlprof_events::process_id());
        // In a container the process id may be equal to the number of a device.
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

    /// Returns the track number of a stream. Streams are counted from 1, and 0 is the default
    /// stream.
    pub(super) fn stream(&self, device: u32, stream: u32) -> u64 {
        match stream {
            0 => self.default_streams.get(&device).copied().unwrap_or(DEFAULT_STREAM),
            stream => u64::from(stream),
        }
    }

    /// Assigns a name to a track.
    pub(super) fn name(&mut self, process: u64, track: u64, name: String) {
        self.named.push((process, track, name));
    }

    /// Returns the number of a further track, for events that cross others on track `name`.
    pub(super) fn further(&mut self, process: u64, name: &str) -> u64 {
        let number = self.next_own;
        self.next_own += 1;
        self.name(process, number, name.to_owned());
        number
    }
}

/// Returns the numbers of the default streams that are not 7, because the device has another stream
/// with that number.
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
    /// Writes the names of all processes and tracks.
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
