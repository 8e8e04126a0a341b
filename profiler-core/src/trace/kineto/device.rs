//! What devices did.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use super::{ArrowEnd, Writer};
use crate::hook::{DeviceActivity, DeviceEvent, TimingMethod};
use crate::trace::nest::Lanes;

/// A stream of a device, or what a device's host code tunes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Queue {
    process: u64,
    stream: u64,
}

/// The tracks of a queue.
struct QueueLanes {
    lanes: Lanes<()>,
    numbers: Vec<u64>,
}

impl<W: Write> Writer<'_, W> {
    pub(super) fn device_events(&mut self) -> io::Result<()> {
        let events = &self.cycle.device_events;
        let is_shown = |event: &&DeviceEvent| event.method != TimingMethod::None;
        let mut order: Vec<&DeviceEvent> = events.iter().filter(is_shown).collect();
        // What is around something comes before it.
        order.sort_by_key(|event| (Reverse(event.end), event.start));
        let mut queues = HashMap::new();
        for event in order {
            self.device_event(event, &mut queues)?;
        }
        Ok(())
    }

    /// Whether an arrow leads from the event's launch to it.
    pub(super) fn is_shown_with_launch(&self, event: &DeviceEvent) -> bool {
        event.method != TimingMethod::None
            && event.activity != DeviceActivity::Tuning
            && self.index.unexplained(self.cycle, event).is_none()
    }

    fn queue(&self, event: &DeviceEvent) -> Queue {
        match event.activity {
            // Work of the host, for a device: number it by the device, away from all streams.
            DeviceActivity::Tuning => {
                Queue { process: self.tracks.process, stream: event.device.into() }
            }
            _ => Queue {
                process: event.device.into(),
                stream: self.tracks.stream(event.device, event.stream),
            },
        }
    }

    /// The track that the event has a place on, if there is any.
    fn track_of(
        &mut self,
        event: &DeviceEvent,
        (start, end): (i64, i64),
        queues: &mut HashMap<Queue, QueueLanes>,
    ) -> Option<(Queue, u64)> {
        let queue = self.queue(event);
        let is_tuning = event.activity == DeviceActivity::Tuning;
        let name = match is_tuning {
            true => format!("tuning for device {}", event.device),
            false => format!("stream {}", queue.stream),
        };
        let tracks = &mut self.tracks;
        let known = queues.entry(queue).or_insert_with(|| {
            let number = if is_tuning {
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
        Some((queue, known.numbers[lane]))
    }

    fn device_event(
        &mut self,
        event: &DeviceEvent,
        queues: &mut HashMap<Queue, QueueLanes>,
    ) -> io::Result<()> {
        let unexplained = self.index.unexplained(self.cycle, event);
        let shift = match unexplained {
            None => self.index.shifts.get(&event.device).copied().unwrap_or(0),
            Some(_) => 0,
        };
        let start = self.time(event.start).saturating_add(shift);
        let end = self.time(event.end).saturating_add(shift).max(start);
        // Where there is no track any more the first one has it.
        let first = self.queue(event);
        let (queue, track) =
            self.track_of(event, (start, end), queues).unwrap_or((first, first.stream));
        self.separate()?;
        self.json.raw("{\"ph\":\"X\",\"cat\":\"");
        self.json.raw(match event.activity {
            DeviceActivity::Kernel => "kernel",
            DeviceActivity::Copy => "gpu_memcpy",
            DeviceActivity::Fill => "gpu_memset",
            DeviceActivity::Tuning => "overhead",
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
        if event.activity != DeviceActivity::Tuning {
            self.json.raw(",\"context\":1,\"stream\":");
            self.json.integer(queue.stream);
        }
        self.device_arguments(event, unexplained, end - start);
        let is_arrow_end = self.is_shown_with_launch(event) && self.has_arrow(event);
        if is_arrow_end {
            self.arrow(ArrowEnd::Kernel(event.correlation), (queue.process, track, start))?;
        }
        Ok(())
    }

    /// Of several events with one launch the first has the arrow.
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
        if event.bytes > 0 {
            self.json.raw(",\"bytes\":");
            self.json.integer(event.bytes);
            if duration > 0 {
                // Bytes per nanosecond, with three decimals like microseconds.
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
}
