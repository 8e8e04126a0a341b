//! Causes of a stream's idle time.

use super::event_waits::{BETWEEN, EventWaits};
use super::window::Window;
use super::work::{DeviceWork, Stream};
use crate::answers::{StreamIdle, WorkKind};
use crate::classify::Meanings;
use crate::trace::{Slice, Trace};

/// Inputs for the explanation of gaps.
pub(super) struct Causes<'a> {
    pub(super) trace: &'a Trace,
    pub(super) meanings: &'a Meanings,
    pub(super) work: &'a DeviceWork,
    pub(super) waits: &'a EventWaits,
    pub(super) window: &'a Window,
}

/// Returns the idle times between a stream's first and last work in the window. `None` if it has no
/// work there.
pub(super) fn of(causes: &Causes<'_>, stream: &Stream) -> Option<StreamIdle> {
    let window = causes.window;
    let mut idle = StreamIdle { stream: stream.number, ..StreamIdle::default() };
    let slices = stream.work.iter().map(|place| (*place, causes.slice(*place)));
    let mut slices = slices.filter(|(_, slice)| window.touches(slice.start, slice.end()));
    let (_, first) = slices.next()?;
    let mut done = first.end();
    idle.busy_ns = window.clip(first.start, done);
    for (place, slice) in slices {
        causes.explain(&mut idle, place, done);
        idle.busy_ns += window.clip(slice.start.max(done), slice.end());
        done = done.max(slice.end());
    }
    idle.span_ns = window.clip(first.start, done);
    Some(idle)
}

impl<'a> Causes<'a> {
    fn slice(&self, place: u32) -> &'a Slice {
        &self.trace.slices[place as usize]
    }

    /// Adds the gap between `done` and the start of this work to its causes.
    ///
    /// If the work waited for another stream, the causes of that work are followed back to `done`.
    /// A wait for a kernel that was launched late therefore counts as host time.
    fn explain(&self, idle: &mut StreamIdle, place: u32, done: i64) {
        let (mut place, mut until) = (place, self.slice(place).start);
        while until > done {
            let waited_for = self.waited_for(place, until);
            let ended = waited_for.map_or(done, |other| self.slice(other).end().max(done));
            // A call that began after its work explains no gap, because host and device clocks can
            // differ.
            let call = self.work.call(place).map(|call| self.slice(call).start.min(until));
            if let Some(call) = call.filter(|call| *call > ended) {
                // All awaited work had ended by the time of the call, so the host was late.
                idle.waiting_for_host_ns += self.window.clip(done, call);
                idle.launch_delay_ns += self.window.clip(call, until);
                return;
            }
            if until - done < BETWEEN {
                idle.between_kernels_ns += self.window.clip(done, until);
                return;
            }
            let Some(other) = waited_for.filter(|_| ended > done) else {
                idle.other_ns += self.window.clip(done, until);
                return;
            };
            // Shorter gaps are the latency with which a device notices the end of a wait.
            let latency = self.window.clip(ended, until);
            match until - ended < BETWEEN {
                true => *self.kind_of(idle, other) += latency,
                false => idle.other_ns += latency,
            }
            let begun = self.slice(other).start.max(done);
            *self.kind_of(idle, other) += self.window.clip(begun, ended);
            (place, until) = (other, begun);
        }
    }

    /// Returns the last work that this work waited for and that had ended by this time. It is on
    /// another stream, or it is the previous work of the same stream.
    fn waited_for(&self, place: u32, until: i64) -> Option<u32> {
        let start = self.slice(place).start;
        let candidates = [self.waits.before(place), self.work.previous(self.trace, place)];
        let is_before = |other: &u32| {
            let other = self.slice(*other);
            other.start < start && other.end() <= until
        };
        let ended = candidates.into_iter().flatten().filter(is_before);
        ended.max_by_key(|other| self.slice(*other).end())
    }

    fn kind_of<'b>(&self, idle: &'b mut StreamIdle, place: u32) -> &'b mut i64 {
        match self.meanings.work(self.slice(place)) {
            Some(WorkKind::Communication) => &mut idle.waiting_for_communication_ns,
            Some(WorkKind::Memory) => &mut idle.waiting_for_memory_ns,
            Some(WorkKind::Compute) | None => &mut idle.waiting_for_compute_ns,
        }
    }
}
