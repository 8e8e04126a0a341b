//! State of one CUDA context: its events and pending regions.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::anchor::Anchor;
use super::delivery::{self, Delivery};
use super::opened::{NotTimed, Opened};
use crate::driver::{Driver, Failure, Handle};
use mlprof_core::hook::{DeviceActivity, DeviceEvent, Timestamp, max_pending_regions};
use mlprof_events::clock::Rate;
use mlprof_events::uncounted;

/// Maximum number of completed regions read when a new region of the same stream begins.
const READ_AT_ONCE: usize = 4;
/// Number of streams above which idle streams are forgotten.
const STREAMS_KEPT: usize = 256;
/// Id of the default stream in CUPTI and in CUDA traces.
const DEFAULT_STREAM: u32 = 7;
/// Ids of other streams are greater than this if CUPTI does not assign ids.
const FIRST_OWN_NUMBER: u32 = 1000;

/// Function that returns external ids of a context and a stream, given their handles.
pub(crate) type Numbering = fn(Handle, Handle) -> Option<(u32, u32)>;

static NUMBERING: OnceLock<Numbering> = OnceLock::new();

/// Sets the ids of streams and contexts, so that regions appear on the tracks of their kernels. The
/// function is called with the context current on the thread. Only the first call has an effect.
pub(crate) fn set_numbering(numbering: Numbering) {
    let _ = NUMBERING.set(numbering);
}

/// Start and end event of a region.
pub(super) struct Pair {
    pub(super) start: Handle,
    pub(super) end: Handle,
}

// SAFETY: the fields are opaque driver handles that only the driver dereferences. The driver
// functions may be called from any thread.
unsafe impl Send for Pair {}

/// Ended region that the device may not have reached yet.
struct Pending {
    opened: Opened,
    pair: Pair,
}

/// Pending regions of a stream in order.
struct Queue {
    stream: Handle,
    number: u32,
    context_number: u32,
    pending: VecDeque<Pending>,
}

// SAFETY: `stream` is an opaque driver handle that is only compared and passed to the driver. The
// other fields are `Send`.
unsafe impl Send for Queue {}

struct State {
    anchor: Anchor,
    /// Unused event pairs.
    free: Vec<Pair>,
    /// Number of existing event pairs, including those of open and pending regions.
    created: usize,
    queues: Vec<Queue>,
    last_stream: u32,
}

/// State of a context, kept until the process ends.
pub(super) struct Context {
    pub(super) handle: Handle,
    device: u32,
    number: u32,
    state: Mutex<State>,
}

// SAFETY: `handle` is an opaque driver handle, and the driver functions may be called from any
// thread. The other fields are `Send`.
unsafe impl Send for Context {}
// SAFETY: `handle`, `device` and `number` are never modified, and a mutex protects the rest. The
// driver functions may be called from several threads at the same time.
unsafe impl Sync for Context {}

impl Context {
    /// Creates the state of the thread's current context. `number` is our id of the context.
    pub(super) fn new(driver: &Driver, handle: Handle, number: u32) -> Result<Self, Failure> {
        let device = driver.context_device()?;
        let _beside = driver.beside_captures();
        let anchor = Anchor::take(driver)?;
        driver.keep_primary(handle, device);
        let state = State {
            anchor,
            free: Vec::new(),
            created: 0,
            queues: Vec::new(),
            last_stream: FIRST_OWN_NUMBER,
        };
        Ok(Self { handle, device, number, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an event pair for a region and reuses pairs if possible. It also reads a few
    /// completed regions of the stream. The context must be current on the thread.
    pub(super) fn take_pair(&self, driver: &Driver, stream: Handle) -> Result<Pair, NotTimed> {
        let mut deliveries = Vec::new();
        let mut state = self.state();
        let pair = uncounted(|| self.take(&mut state, driver, stream, &mut deliveries));
        drop(state);
        delivery::deliver(deliveries);
        pair
    }

    fn take(
        &self,
        state: &mut State,
        driver: &Driver,
        stream: Handle,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<Pair, NotTimed> {
        let own = |queue: &Queue| queue.stream == stream && !queue.pending.is_empty();
        if state.queues.iter().any(own) {
            let _beside = driver.beside_captures();
            self.read_those_over(state, driver, READ_AT_ONCE, own, deliveries);
        }
        if let Some(pair) = state.free.pop() {
            return Ok(pair);
        }
        let _beside = driver.beside_captures();
        let most = max_pending_regions();
        if state.created >= most {
            self.read_those_over(state, driver, usize::MAX, |_| true, deliveries);
            return state.free.pop().ok_or(NotTimed::TooMany(most));
        }
        let start = driver.create_event()?;
        match driver.create_event() {
            Ok(end) => {
                state.created += 1;
                Ok(Pair { start, end })
            }
            Err(failure) => {
                // SAFETY: the event was created above, and it is not used afterwards.
                unsafe { driver.destroy_event(start) };
                Err(failure.into())
            }
        }
    }

    /// Reads up to `most` completed regions of each selected stream, in order.
    fn read_those_over(
        &self,
        state: &mut State,
        driver: &Driver,
        most: usize,
        which: impl Fn(&Queue) -> bool,
        deliveries: &mut Vec<Delivery>,
    ) {
        let State { anchor, free, created, queues, .. } = state;
        for queue in queues.iter_mut().filter(|queue| which(queue)) {
            for _ in 0..most {
                let Some(first) = queue.pending.front() else { break };
                // SAFETY: the event exists, because the pair is destroyed only in `put_back`. It
                // was recorded in this context before the region became pending.
                let is_over = unsafe { driver.is_over(first.pair.end) };
                if is_over == Ok(false) {
                    break;
                }
                let numbers = (queue.context_number, queue.number);
                let Some(first) = queue.pending.pop_front() else { break };
                let what = is_over.and_then(|_| self.read(anchor, driver, numbers, &first));
                put_back(driver, free, created, first.pair, what.is_ok());
                deliveries.push(Delivery { sink: first.opened.sink, what });
            }
        }
    }

    /// Returns the times of a completed region.
    fn read(
        &self,
        anchor: &Anchor,
        driver: &Driver,
        (driver_context, stream): (u32, u32),
        region: &Pending,
    ) -> Result<(DeviceEvent, u64), Failure> {
        let Pair { start, end } = region.pair;
        let rate = Rate::now();
        // SAFETY: the events exist, because the pair is destroyed only in `put_back`. They belong
        // to the same context as the anchor. Both were recorded, and the end event has completed.
        let (seconds, began) = unsafe {
            (driver.seconds_between(start, end)?.max(0.0), anchor.ticks_of(driver, start, rate)?)
        };
        let began = began.max(region.opened.ticks);
        let ended = began.saturating_add(rate.ticks(seconds));
        let (start, end) = (Timestamp::from_ticks(began), Timestamp::from_ticks(ended));
        let event = DeviceEvent {
            activity: DeviceActivity::Region,
            device: self.device,
            stream,
            driver_context,
            ..DeviceEvent::new(region.opened.action, start, end)
        };
        Ok((event, (seconds * 1e9).round() as u64))
    }

    /// Adds an ended region, which is read after the device has reached its end. The context must
    /// be current on the thread.
    pub(super) fn add_pending(&self, stream: Handle, opened: Opened, pair: Pair) {
        let mut state = self.state();
        uncounted(|| {
            let known = state.queues.iter().position(|queue| queue.stream == stream);
            let position = known.unwrap_or_else(|| {
                let queue = self.queue(&mut state, stream);
                state.queues.push(queue);
                state.queues.len() - 1
            });
            state.queues[position].pending.push_back(Pending { opened, pair });
        });
    }

    fn queue(&self, state: &mut State, stream: Handle) -> Queue {
        let theirs = NUMBERING.get().and_then(|numbering| numbering(self.handle, stream));
        let (context_number, number) = theirs.unwrap_or_else(|| {
            // Handle 1 is `CU_STREAM_LEGACY`, which is the default stream like null.
            if stream.addr() <= 1 {
                return (self.number, DEFAULT_STREAM);
            }
            state.last_stream = state.last_stream.saturating_add(1);
            (self.number, state.last_stream)
        });
        Queue { stream, number, context_number, pending: VecDeque::new() }
    }

    /// Takes back the events of an abandoned region. They are reused if `are_good`.
    pub(super) fn take_back(&self, driver: &Driver, pair: Pair, are_good: bool) {
        let mut state = self.state();
        let State { free, created, .. } = &mut *state;
        put_back(driver, free, created, pair, are_good);
    }

    /// Waits for all pending regions and reads them. It does not hold the lock while it waits.
    pub(super) fn finish(&self, driver: &Driver) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let mut taken: Vec<((u32, u32), VecDeque<Pending>)> = Vec::new();
        for queue in &mut self.state().queues {
            let numbers = (queue.context_number, queue.number);
            taken.push((numbers, std::mem::take(&mut queue.pending)));
        }
        // SAFETY: `keep_primary` keeps a primary context alive since the first region. The owner of
        // any other context keeps it, as `Stream::from_raw` requires.
        let entered = unsafe { driver.enter(self.handle) };
        let _beside = driver.beside_captures();
        for (numbers, pending) in taken {
            for region in pending {
                let waited = entered.as_ref().map_err(|failure| *failure).and_then(|_| {
                    // SAFETY: the event exists, because the pair is destroyed only in `put_back`,
                    // and this context is current.
                    unsafe { driver.synchronize(region.pair.end) }
                });
                let mut state = self.state();
                let State { anchor, free, created, .. } = &mut *state;
                let what = waited.and_then(|()| self.read(anchor, driver, numbers, &region));
                put_back(driver, free, created, region.pair, what.is_ok());
                deliveries.push(Delivery { sink: region.opened.sink, what });
            }
        }
        if entered.is_ok() {
            self.tidy_up(driver);
        }
        deliveries
    }

    /// Renews the anchor if no region is open or pending, and forgets idle streams if there are
    /// many.
    fn tidy_up(&self, driver: &Driver) {
        let mut state = self.state();
        if state.free.len() == state.created {
            state.anchor.renew(driver);
        }
        if state.queues.len() > STREAMS_KEPT {
            state.queues.retain(|queue| !queue.pending.is_empty());
        }
    }
}

/// Returns an event pair to the free list, or destroys it if it is not usable.
fn put_back(
    driver: &Driver,
    free: &mut Vec<Pair>,
    created: &mut usize,
    pair: Pair,
    are_good: bool,
) {
    if are_good {
        uncounted(|| free.push(pair));
        return;
    }
    *created = created.saturating_sub(1);
    // SAFETY: both events exist, and `pair` was moved here, so they are not used afterwards.
    unsafe {
        driver.destroy_event(pair.start);
        driver.destroy_event(pair.end);
    }
}
