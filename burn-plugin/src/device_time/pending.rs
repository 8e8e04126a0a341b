//! Closed windows whose device times have not been read yet.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use burn::cubecl::future::block_on;
use burn::cubecl::logging::{ProfileDuration, ProfileTicks};
use mlprof_core::hook::max_pending_regions;

use super::region::Region;
use crate::lock::lock;

type Ticks = Pin<Box<dyn Future<Output = Option<ProfileTicks>> + Send>>;

struct Pending {
    region: Region,
    ticks: Ticks,
    _place: Place,
}

/// Closed windows in closing order.
static PENDING: Mutex<VecDeque<Pending>> = Mutex::new(VecDeque::new());
/// Number of open and pending windows.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Number of windows that stay unread until the report. Reading a CUDA or ROCm time blocks. A
/// window is therefore read earlier only if at least this many windows, as many as a stream can
/// hold, follow it. The device has then passed it.
const NOT_READ: usize = 1024;
/// Maximum number of available results that are read when another window is opened.
const READ_AT_ONCE: usize = 4;

/// A slot for one open or pending window.
pub(super) struct Place(());

/// Error: the maximum number of windows is already open or pending.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} regions were pending; raise the limit with set_max_pending_regions")]
pub(super) struct TooMany(usize);

impl Place {
    pub(super) fn take() -> Result<Self, TooMany> {
        let most = max_pending_regions();
        let taken = UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        let place = Self(());
        if taken < most { Ok(place) } else { Err(TooMany(most)) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns `true` if a window is open or pending.
pub(super) fn is_any() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) > 0
}

pub(super) fn add(region: Region, place: Place, time: ProfileDuration) {
    lock(&PENDING).push_back(Pending { region, ticks: time.into_future(), _place: place });
}

/// Reads a few of the oldest windows if many are pending.
pub(super) fn read_some() {
    for _ in 0..READ_AT_ONCE {
        let first = {
            let mut pending = lock(&PENDING);
            let is_many = pending.len() > NOT_READ.min(max_pending_regions() / 2);
            is_many.then(|| pending.pop_front()).flatten()
        };
        let Some(mut first) = first else { return };
        let mut idle = Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| first.ticks.as_mut().poll(&mut idle)));
        match polled {
            Ok(Poll::Ready(ticks)) => first.region.deliver(Ok(ticks)),
            Ok(Poll::Pending) => return lock(&PENDING).push_front(first),
            Err(_) => first.region.deliver(Err(())),
        }
    }
}

/// Reads all windows and waits for the devices.
pub(super) fn deliver_all() {
    let pending = std::mem::take(&mut *lock(&PENDING));
    for Pending { region, ticks, _place } in pending {
        let ticks = catch_unwind(AssertUnwindSafe(|| block_on(ticks)));
        region.deliver(ticks.map_err(|_| ()));
    }
}
