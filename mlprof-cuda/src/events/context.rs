//! One of the driver's contexts: its events, and the regions under way in it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::anchor::Anchor;
use super::delivery::{self, Delivery};
use super::opened::{NotTimed, Opened};
use crate::driver::{Driver, Failure, Handle};
use mlprof_core::hook::{DeviceActivity, DeviceEvent, Timestamp, max_pending_regions};
use mlprof_events::clock::Rate;
use mlprof_events::uncounted;

/// So many regions are read, if they are over, when another one of their stream begins.
const READ_AT_ONCE: usize = 4;
/// Streams that have nothing under way are forgotten when there are more than so many.
const STREAMS_KEPT: usize = 256;
/// The default stream's number, as CUPTI and traces of CUDA have it.
const DEFAULT_STREAM: u32 = 7;
/// Numbers of other streams, where nobody else numbers them, are above this one.
const FIRST_OWN_NUMBER: u32 = 1000;

/// Numbers that somebody else gives to contexts and streams: (context, stream) for both handles.
pub(crate) type Numbering = fn(Handle, Handle) -> Option<(u32, u32)>;

static NUMBERING: OnceLock<Numbering> = OnceLock::new();

/// Has regions carry these numbers of streams and contexts, so that they stand on the tracks of the
/// kernels that run in them. Called with the context being the thread's own; only the first one counts.
pub(crate) fn set_numbering(numbering: Numbering) {
    let _ = NUMBERING.set(numbering);
}

/// The events of a region.
pub(super) struct Pair {
    pub(super) start: Handle,
    pub(super) end: Handle,
}

// SAFETY: what the pointers lead to belongs to the driver, which any thread may call.
unsafe impl Send for Pair {}

/// A region whose guard was dropped, and which the device may not have come to yet.
struct Pending {
    opened: Opened,
    pair: Pair,
}

/// The regions of a stream, in order.
struct Queue {
    stream: Handle,
    number: u32,
    context_number: u32,
    pending: VecDeque<Pending>,
}

// SAFETY: as above; of the stream only the address is used.
unsafe impl Send for Queue {}

struct State {
    anchor: Anchor,
    /// Events that wait for a region.
    free: Vec<Pair>,
    /// Pairs that there are: free, of open regions, and of pending ones.
    created: usize,
    queues: Vec<Queue>,
    last_stream: u32,
}

/// What is kept of a context, for ever.
pub(super) struct Context {
    pub(super) handle: Handle,
    device: u32,
    number: u32,
    state: Mutex<State>,
}

// SAFETY: the context belongs to the driver, which any thread may call; all else is in a lock.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Of the context that the thread works in; the `number` is ours.
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

    /// Events for a region, used ones if there are any. Reads a few of the stream's regions that are
    /// over. The thread works in this context.
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
                // SAFETY: created above, and used nowhere.
                unsafe { driver.destroy_event(start) };
                Err(failure.into())
            }
        }
    }

    /// Reads up to `most` regions that are over, of queues `which`; a stream's in order.
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
                // SAFETY: the events are this context's, and recorded.
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

    /// When a region ran that is over.
    fn read(
        &self,
        anchor: &Anchor,
        driver: &Driver,
        (driver_context, stream): (u32, u32),
        region: &Pending,
    ) -> Result<(DeviceEvent, u64), Failure> {
        let Pair { start, end } = region.pair;
        let rate = Rate::now();
        // SAFETY: the events are this context's, as the anchor is, were recorded, and are over.
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

    /// A region has ended: it is read when the device has come to its end. The thread works in this
    /// context.
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
            // 1 is another way to say null.
            if stream.addr() <= 1 {
                return (self.number, DEFAULT_STREAM);
            }
            state.last_stream = state.last_stream.saturating_add(1);
            (self.number, state.last_stream)
        });
        Queue { stream, number, context_number, pending: VecDeque::new() }
    }

    /// Takes back the events of a region that came to nothing, to be used again if they `are_good`.
    pub(super) fn take_back(&self, driver: &Driver, pair: Pair, are_good: bool) {
        let mut state = self.state();
        let State { free, created, .. } = &mut *state;
        put_back(driver, free, created, pair, are_good);
    }

    /// Waits for all that is pending, and reads it. Nobody else has to wait meanwhile.
    pub(super) fn finish(&self, driver: &Driver) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let mut taken: Vec<((u32, u32), VecDeque<Pending>)> = Vec::new();
        for queue in &mut self.state().queues {
            let numbers = (queue.context_number, queue.number);
            taken.push((numbers, std::mem::take(&mut queue.pending)));
        }
        // SAFETY: the context is kept since its first region.
        let entered = unsafe { driver.enter(self.handle) };
        let _beside = driver.beside_captures();
        for (numbers, pending) in taken {
            for region in pending {
                let waited = entered.as_ref().map_err(|failure| *failure).and_then(|_| {
                    // SAFETY: the event is this context's.
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

    /// With nothing under way the anchor is taken again, and streams are forgotten if there are many.
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

/// For the next region; or, if something was wrong with them, for none.
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
    // SAFETY: nobody else has them.
    unsafe {
        driver.destroy_event(pair.start);
        driver.destroy_event(pair.end);
    }
}
