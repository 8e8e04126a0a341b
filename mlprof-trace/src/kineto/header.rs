//! Metadata of a trace, before and after its events.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};

use super::Writer;
use crate::host;
use mlprof_events::{ClockReading, DeviceDescription};

/// Minimum difference that counts as a suspension, in nanoseconds. Clocks that are read one after
/// the other differ by less.
const SHORTEST_SUSPENSION: i64 = 100_000_000;

impl<W: Write> Writer<'_, W> {
    /// Writes everything before the first event. HolisticTraceAnalysis searches the first lines for
    /// the text `"rank": 3`, which requires the space.
    pub(super) fn header(&mut self) -> io::Result<()> {
        self.json.raw("{\n\"schemaVersion\":1,\n\"deviceProperties\":[");
        for (number, device) in self.tracks.devices.clone().iter().enumerate() {
            self.json.raw(if number == 0 { "{\"id\":" } else { ",{\"id\":" });
            self.json.integer(*device);
            self.json.raw(",\"clock_shift_ns\":");
            self.json.integer(self.index.shifts.get(device).copied().unwrap_or(0));
            if let Some(description) = self.cycle.device(*device) {
                self.device_properties(description);
            }
            self.json.raw("}");
        }
        let run = &self.cycle.run;
        self.json.raw("],\n\"distributedInfo\":{\"backend\": \"\", \"rank\": ");
        self.json.integer(run.rank);
        self.json.raw(", \"world_size\": ");
        self.json.integer(run.world_size);
        self.json.raw("},\n\"displayTimeUnit\":\"ms\",\n\"baseTimeNanoseconds\":");
        self.json.integer(self.base);
        self.json.raw(",\n\"trace_id\":");
        let own = self.cycle.trace.trace_id.clone();
        self.json.string(&own.unwrap_or_else(trace_id));
        self.json.raw(",\n\"hostname\":");
        self.json.string(&host::host_name());
        for (flag, is_set) in [
            ("record_shapes", self.index.has_shapes),
            ("profile_memory", self.index.has_memory),
            ("with_flops", self.cycle.trace.with_flops),
            ("with_stack", self.cycle.trace.with_stack),
        ] {
            self.json.raw(",\n");
            self.json.string(flag);
            self.json.raw(if is_set { ":1" } else { ":0" });
        }
        for (name, value) in self.cycle.trace.metadata() {
            self.json.raw(",\n");
            self.json.string(name);
            self.json.raw(":");
            self.json.raw(value);
        }
        self.cycle_data();
        self.json.raw(",\n\"traceEvents\":[");
        self.json.hand_on_if_full()
    }

    /// Writes the properties of a device under Kineto's names.
    fn device_properties(&mut self, device: &DeviceDescription) {
        self.json.raw(",\"name\":");
        self.json.string(&device.name);
        for (name, number) in [
            ("totalGlobalMem", device.memory),
            ("computeMajor", device.compute_capability.0.into()),
            ("computeMinor", device.compute_capability.1.into()),
            ("maxThreadsPerBlock", device.threads_per_block.into()),
            ("maxThreadsPerMultiprocessor", device.threads_per_multiprocessor.into()),
            ("regsPerBlock", device.registers_per_block.into()),
            ("regsPerMultiprocessor", device.registers_per_multiprocessor.into()),
            ("warpSize", device.warp_size.into()),
            ("sharedMemPerBlock", device.shared_memory_per_block),
            ("sharedMemPerMultiprocessor", device.shared_memory_per_multiprocessor),
            ("numSms", device.multiprocessors.into()),
        ] {
            self.json.raw(",");
            self.json.string(name);
            self.json.raw(":");
            self.json.integer(number);
        }
    }

    /// Writes the details of the cycle, and the numbers of dropped events.
    fn cycle_data(&mut self) {
        let (cycle, json) = (self.cycle, &mut self.json);
        json.raw(",\n\"mlprof\":{\"stage\":");
        match cycle.stage {
            Some(stage) => json.string(stage.as_str()),
            None => json.raw("null"),
        }
        json.raw(if cycle.is_complete {
            ",\"is_complete\":true"
        } else {
            ",\"is_complete\":false"
        });
        for (name, number) in [
            ("cycle", cycle.number),
            ("first_step", cycle.steps.start),
            ("steps", cycle.steps.end.saturating_sub(cycle.steps.start)),
            ("local_rank", cycle.run.local_rank.into()),
            ("dropped_events", cycle.dropped.events),
            ("dropped_memory_events", cycle.dropped.memory),
            ("dropped_device_events", cycle.dropped.device),
            ("scopes_open_on_other_threads", cycle.open_elsewhere),
        ] {
            json.raw(",");
            json.string(name);
            json.raw(":");
            json.integer(number);
        }
        self.clocks();
        self.pauses();
        self.json.raw("}");
    }

    /// Writes the available clocks and their readings at the beginning and at the end. They relate
    /// this time line to those of other processes.
    fn clocks(&mut self) {
        self.json.raw(",\"boot_id\":");
        match host::boot_id() {
            Some(boot) => self.json.string(&boot),
            None => self.json.raw("null"),
        }
        self.json.raw(",\"clocks\":[");
        for (number, reading) in self.cycle.clocks.iter().enumerate() {
            self.json.raw(if number == 0 { "{\"ts\":" } else { ",{\"ts\":" });
            self.json.microseconds(self.time(reading.time));
            for (name, value) in [
                ("realtime_ns", Some(reading.realtime)),
                ("monotonic_ns", reading.monotonic),
                ("boottime_ns", reading.boottime),
                ("error_ns", Some(self.cycle.error_of(reading).cast_signed())),
            ] {
                if let Some(value) = value {
                    self.json.raw(",");
                    self.json.string(name);
                    self.json.raw(":");
                    self.json.integer(value);
                }
            }
            self.json.raw("}");
        }
        self.json.raw("]");
        let [first, last] = &self.cycle.clocks;
        let asleep = |reading: &ClockReading| Some(reading.boottime? - reading.monotonic?);
        if let (Some(before), Some(after)) = (asleep(first), asleep(last))
            && after - before >= SHORTEST_SUSPENSION
        {
            self.json.raw(",\"suspended_ns\":");
            self.json.integer(after - before);
        }
    }

    /// Writes the times in which recording was paused, so that readers do not take them for idle
    /// time.
    fn pauses(&mut self) {
        if self.cycle.pauses.is_empty() {
            return;
        }
        self.json.raw(",\"pauses\":[");
        for (number, (from, to)) in self.cycle.pauses.iter().enumerate() {
            self.json.raw(if number == 0 { "{\"ts\":" } else { ",{\"ts\":" });
            self.json.microseconds(self.time(*from));
            self.json.raw(",\"until\":");
            self.json.microseconds(self.time(*to));
            self.json.raw("}");
        }
        self.json.raw("]");
    }

    /// Writes everything after the last event.
    pub(super) fn footer(&mut self, name: &str) {
        self.json.raw("\n],\n\"traceName\":");
        self.json.string(name);
        self.json.raw("\n}\n");
    }
}

/// Returns a random number of 128 bits in hexadecimal, to identify the trace.
fn trace_id() -> String {
    // The seeds of its hashers are the only random numbers in the standard library.
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016X}{:016X}", random(), random())
}
