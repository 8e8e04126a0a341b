//! Converts kernel measurements from device time to events.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use burn::cubecl::future::block_on;
use burn::cubecl::logging::{ProfileDuration, ProfileTicks, TimingMethod as CubeTimingMethod};
use mlprof_core::Action;
use mlprof_core::hook::{self, Context, DeviceActivity, DeviceEvent, Timestamp, TimingMethod};

/// Data of a kernel, except its times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) kernel: Action,
    pub(super) activity: DeviceActivity,
    pub(super) device: u32,
    pub(super) stream: u32,
    pub(super) correlation: u32,
    pub(super) context: Option<Context>,
    /// Time at which the kernel was launched.
    pub(super) at: Instant,
}

/// A kernel whose measurement has not been read from the device.
pub(super) struct Unread {
    pub(super) reading: Reading,
    pub(super) measurement: ProfileDuration,
}

/// Offset of each stream's device clock to the host clock, in nanoseconds, by device and stream.
///
/// cubecl reports all times as host times, but wgpu counts from an arbitrary device time. All times
/// of a stream then have the same offset. A kernel cannot run before its launch. The clock is
/// therefore adjusted such that the kernel with the shortest delay started exactly at its launch.
/// Times that need no adjustment are not changed.
pub(super) type ClockOffsets = HashMap<(u32, u32), i64>;

/// Maximum plausible queueing time of a kernel. A clock with a smaller offset is considered
/// correct.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Reading {
    /// Delivers the kernel with these times.
    pub(super) fn deliver(self, start: Instant, end: Instant, method: TimingMethod) {
        let from = Timestamp::at(start);
        // The two conversions have different rounding errors, so the end is clamped to the start.
        let to = if end > start { Timestamp::at(end).max(from) } else { from };
        hook::device_event(&DeviceEvent {
            activity: self.activity,
            method,
            device: self.device,
            stream: self.stream,
            correlation: self.correlation,
            context: self.context,
            ..DeviceEvent::new(self.kernel, from, to)
        });
    }

    /// Delivers the kernel without times, because its execution time is unknown.
    pub(super) fn deliver_untimed(self) {
        self.deliver(self.at, self.at, TimingMethod::None);
    }
}

/// Returns a reference time before all measurements, which makes all times representable as spans.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(|| {
        let now = Instant::now();
        now.checked_sub(Duration::from_secs(86_400)).unwrap_or(now)
    })
}

/// Converts a span since [`epoch`] to nanoseconds.
fn nanoseconds(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

fn instant(nanoseconds: i64) -> Instant {
    epoch() + Duration::from_nanos(nanoseconds.max(0).cast_unsigned())
}

pub(super) fn method(method: CubeTimingMethod) -> TimingMethod {
    match method {
        CubeTimingMethod::Device => TimingMethod::Device,
        CubeTimingMethod::System => TimingMethod::Host,
    }
}

/// A kernel with its times since [`epoch`] in nanoseconds, by the clock of its stream.
struct Timed {
    reading: Reading,
    method: TimingMethod,
    start: i64,
    end: i64,
}

impl Timed {
    fn stream(&self) -> (u32, u32) {
        (self.reading.device, self.reading.stream)
    }

    /// Returns the time from launch to start in nanoseconds, provided that both clocks agree.
    fn wait(&self) -> i64 {
        self.start - nanoseconds(self.reading.at.saturating_duration_since(epoch()))
    }
}

/// Reads all measurements, waiting for the device, and delivers the kernels.
pub(super) fn read_all(unread: Vec<Unread>, ahead: &mut ClockOffsets) {
    let timed = resolve(unread);
    for kernel in timed.iter().filter(|kernel| kernel.method == TimingMethod::Device) {
        let wait = kernel.wait();
        let soonest = ahead.entry(kernel.stream()).or_insert(wait);
        *soonest = wait.min(*soonest);
    }
    for kernel in timed {
        let shift = match ahead.get(&kernel.stream()) {
            Some(wait) if kernel.method == TimingMethod::Device && !is_a_wait(*wait) => *wait,
            _ => 0,
        };
        let (start, end) = (instant(kernel.start - shift), instant(kernel.end - shift));
        kernel.reading.deliver(start, end, kernel.method);
    }
}

fn is_a_wait(nanoseconds: i64) -> bool {
    (0..LONGEST_WAIT.as_nanos() as i64).contains(&nanoseconds)
}

/// Waits for all measurements and delivers kernels without a measurement immediately.
fn resolve(unread: Vec<Unread>) -> Vec<Timed> {
    type Ticks = Pin<Box<dyn Future<Output = Option<ProfileTicks>> + Send>>;
    let mut timed = Vec::with_capacity(unread.len());
    let mut add = |reading: Reading, method, ticks: Option<ProfileTicks>| match ticks {
        None => reading.deliver_untimed(),
        Some(ticks) => timed.push(Timed {
            reading,
            method,
            start: nanoseconds(ticks.start_duration_since(epoch())),
            end: nanoseconds(ticks.end_duration_since(epoch())),
        }),
    };
    let mut waiting: Vec<(Reading, TimingMethod, Ticks)> = Vec::new();
    let mut idle = TaskContext::from_waker(Waker::noop());
    for Unread { reading, measurement } in unread {
        let method = method(measurement.timing_method());
        let mut ticks: Ticks = measurement.into_future();
        // The first poll sends the request to the device. All requests are sent before waiting for
        // the first result.
        match ticks.as_mut().poll(&mut idle) {
            Poll::Ready(ticks) => add(reading, method, ticks),
            Poll::Pending => waiting.push((reading, method, ticks)),
        }
    }
    for (reading, method, ticks) in waiting {
        let ticks = block_on(ticks);
        add(reading, method, ticks);
    }
    timed
}
