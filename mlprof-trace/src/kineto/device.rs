//! Device events of a trace.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use super::annotations::Span;
use super::{ArrowEnd, Writer};
use crate::nest::Lanes;
use mlprof_events::OrderExt;
use mlprof_events::{DeviceActivity, DeviceEvent, KernelLaunch, TimingMethod};

/// A device stream, or the host work for a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Queue {
    process: u64,
    stream: u64,
}

/// A slice on a device's track.
struct Slice<'cycle> {
    start: i64,
    end: i64,
    what: DeviceRecord<'cycle>,
}

enum DeviceRecord<'cycle> {
    Event(&'cycle DeviceEvent),
    Span(Span),
}

/// Tracks of a queue.
struct QueueLanes {
    lanes: Lanes<()>,
    numbers: Vec<u64>,
}

impl<W: Write> Writer<'_, W> {
    pub(super) fn device_events(&mut self) -> io::Result<()> {
        let cycle = self.cycle;
        let shown = cycle.device_events.iter().filter(|event| event.method != TimingMethod::None);
        let mut slices: Vec<Slice<'_>> = Vec::new();
        for event in shown {
            let (start, end) = self.device_times(event);
            if self.is_shown_with_launch(event) && event.activity.is_device_work() {
                self.annotations.ran(event, start, end);
            }
            slices.push(Slice { start, end, what: DeviceRecord::Event(event) });
        }
        let spans = self.annotations.spans();
        slices.extend(spans.map(|span| Slice {
            start: span.start,
            end: span.end,
            what: DeviceRecord::Span(span),
        }));
        // An enclosing slice must precede the slices inside it.
        slices.order_by_key(|slice| {
            let (is_event, action) = match &slice.what {
                DeviceRecord::Span(span) => (false, Some(span.action)),
                DeviceRecord::Event(_) => (true, None),
            };
            (Reverse(slice.end), slice.start, is_event, action)
        });
        let mut queues = HashMap::new();
        for slice in slices {
            match slice.what {
                DeviceRecord::Event(event) => {
                    self.device_event(event, (slice.start, slice.end), &mut queues)?;
                }
                DeviceRecord::Span(span) => self.span(&span, &mut queues)?,
            }
        }
        Ok(())
    }

    /// Returns the displayed start and end of an event.
    fn device_times(&self, event: &DeviceEvent) -> (i64, i64) {
        let shift = match self.index.unexplained(self.cycle, event) {
            None => self.index.shifts.get(&event.device).copied().unwrap_or(0),
            Some(_) => 0,
        };
        let start = self.time(event.start).saturating_add(shift);
        (start, self.time(event.end).saturating_add(shift).max(start))
    }

    /// Writes an action on a stream.
    fn span(&mut self, span: &Span, queues: &mut HashMap<Queue, QueueLanes>) -> io::Result<()> {
        let stream = self.tracks.stream(span.device, span.stream);
        let queue = Queue { process: span.device.into(), stream };
        let times = (span.start, span.end);
        let track = self.track_of(queue, None, times, queues).unwrap_or(stream);
        self.separate()?;
        self.json.raw("{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"");
        self.json.raw(self.names.escaped(span.action));
        self.json.raw("\"");
        self.place(queue.process, track, span.start);
        self.json.raw(",\"dur\":");
        self.json.microseconds(span.end - span.start);
        self.json.raw(",\"args\":{\"device\":");
        self.json.integer(span.device);
        self.json.raw(",\"stream\":");
        self.json.integer(stream);
        self.json.raw("}}");
        Ok(())
    }

    /// Returns `true` if an arrow leads from the event's launch to the event.
    pub(super) fn is_shown_with_launch(&self, event: &DeviceEvent) -> bool {
        event.method != TimingMethod::None
            && !event.activity.is_host_work()
            && self.index.unexplained(self.cycle, event).is_none()
    }

    fn queue(&self, event: &DeviceEvent) -> Queue {
        match event.activity {
            // This is host work for a device. It is numbered by device and shown apart from all
            // streams.
            DeviceActivity::Tuning => {
                Queue { process: self.tracks.process, stream: event.device.into() }
            }
            DeviceActivity::Overhead => {
                let stream = u64::from(event.device) | 1 << 32;
                Queue { process: self.tracks.process, stream }
            }
            _ => Queue {
                process: event.device.into(),
                stream: self.tracks.stream(event.device, event.stream),
            },
        }
    }

    /// Returns the track of a queue on which a slice fits, if there is one. For host work,
    /// `host_work` is the name of the queue.
    fn track_of(
        &mut self,
        queue: Queue,
        host_work: Option<String>,
        (start, end): (i64, i64),
        queues: &mut HashMap<Queue, QueueLanes>,
    ) -> Option<u64> {
        let is_host_work = host_work.is_some();
        let name = host_work.unwrap_or_else(|| format!("stream {}", queue.stream));
        let tracks = &mut self.tracks;
        let known = queues.entry(queue).or_insert_with(|| {
            let number = if is_host_work {
                tracks.further(queue.process, &name)
            } else {
                tracks.name(queue.process, queue.stream, name.clone());
                queue.stream
            };
            QueueLanes { lanes: Lanes::new(), numbers: vec![number] }
        });
        let lane = known.lanes.place(start, end, 0)?;
        known.lanes.lane(lane).push(start, end, ());
        while known.numbers.len() <= lane {
            known.numbers.push(tracks.further(queue.process, &format!("{name} (overlapping)")));
        }
        Some(known.numbers[lane])
    }

    fn device_event(
        &mut self,
        event: &DeviceEvent,
        (start, end): (i64, i64),
        queues: &mut HashMap<Queue, QueueLanes>,
    ) -> io::Result<()> {
        let unexplained = self.index.unexplained(self.cycle, event);
        let queue = self.queue(event);
        let host_work = match event.activity {
            DeviceActivity::Tuning => Some(format!("tuning for device {}", event.device)),
            DeviceActivity::Overhead => Some(format!("driver of device {}", event.device)),
            _ => None,
        };
        // If no more tracks are available, the slice is placed on the first one.
        let track = self.track_of(queue, host_work, (start, end), queues).unwrap_or(queue.stream);
        self.separate()?;
        self.json.raw("{\"ph\":\"X\",\"cat\":\"");
        self.json.raw(match event.activity {
            DeviceActivity::Kernel => "kernel",
            DeviceActivity::Copy => "gpu_memcpy",
            DeviceActivity::Fill => "gpu_memset",
            DeviceActivity::Tuning | DeviceActivity::Overhead => "overhead",
            DeviceActivity::Synchronization => "cuda_sync",
            DeviceActivity::Region => "gpu_user_annotation",
        });
        self.json.raw("\",\"name\":\"");
        self.json.raw(self.names.escaped(event.action));
        self.json.raw("\"");
        self.place(queue.process, track, start);
        self.json.raw(",\"dur\":");
        self.json.microseconds(end - start);
        self.json.raw(",\"args\":{\"device\":");
        self.json.integer(event.device);
        if !event.activity.is_host_work() {
            self.json.raw(",\"context\":");
            self.json.integer(event.driver_context.max(1));
            self.json.raw(",\"stream\":");
            self.json.integer(queue.stream);
        }
        self.device_arguments(event, unexplained, end - start);
        let is_arrow_end = self.is_shown_with_launch(event) && self.has_arrow(event);
        if is_arrow_end {
            self.arrow(ArrowEnd::Kernel(event.correlation), (queue.process, track, start))?;
        }
        Ok(())
    }

    /// Returns `true` if the arrow ends at this event. If several events have the same launch, it
    /// ends at the first.
    fn has_arrow(&self, event: &DeviceEvent) -> bool {
        self.index.launches.get(&event.correlation).is_some_and(|launch| {
            launch.start.is_some()
                && std::ptr::eq(&self.cycle.device_events[launch.device_event], event)
        })
    }

    fn device_arguments(&mut self, event: &DeviceEvent, unexplained: Option<i64>, duration: i64) {
        let launch = self.index.launches.get(&event.correlation);
        let launch = launch.filter(|launch| launch.start.is_some() && unexplained.is_none());
        if let Some(launch) = launch {
            self.json.raw(",\"External id\":");
            self.json.integer(launch.external_id);
            self.json.raw(",\"correlation\":");
            self.json.integer(event.correlation);
        }
        if let Some(early) = unexplained {
            self.json.raw(",\"before launch (us)\":");
            self.json.microseconds(early);
        }
        if let Some(launch) = event.configuration.launch() {
            self.launch_arguments(&launch);
        }
        if event.bytes > 0 {
            self.json.raw(",\"bytes\":");
            self.json.integer(event.bytes);
            if duration > 0 {
                // The unit is bytes per nanosecond, written with three decimals like microseconds.
                let bandwidth =
                    u128::from(event.bytes) * 1000 / u128::from(duration.unsigned_abs());
                self.json.raw(",\"memory bandwidth (GB/s)\":");
                self.json.microseconds(i64::try_from(bandwidth).unwrap_or(i64::MAX));
            }
        }
        if event.method == TimingMethod::Host {
            self.json.raw(",\"timed by\":\"host\"");
        }
        self.json.raw(self.contexts.arguments(self.cycle, event.context));
        self.json.raw("}}");
    }

    /// Writes the launch configuration under Kineto's names.
    fn launch_arguments(&mut self, launch: &KernelLaunch) {
        for (name, sizes) in [("grid", launch.grid), ("block", launch.block)] {
            let [x, y, z] = sizes;
            self.json.raw(format!(",\"{name}\":[{x},{y},{z}]"));
        }
        self.json.raw(",\"registers per thread\":");
        self.json.integer(launch.registers_per_thread);
        self.json.raw(",\"shared memory\":");
        self.json.integer(launch.shared_memory);
        let thousandths = [
            ("blocks per SM", launch.blocks_per_multiprocessor),
            ("warps per SM", launch.warps_per_multiprocessor),
        ];
        for (name, value) in thousandths {
            if let Some(value) = value {
                self.json.raw(format!(",\"{name}\":{}.{:03}", value / 1000, value % 1000));
            }
        }
        if let Some(percent) = launch.occupancy {
            self.json.raw(",\"est. achieved occupancy %\":");
            self.json.integer(percent);
        }
    }
}
