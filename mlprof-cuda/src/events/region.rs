//! Open device region.

use std::marker::PhantomData;
use std::sync::Arc;

use super::context::{Context, Pair};
use super::contexts;
use super::opened::{NotTimed, Opened};
use super::stream::Stream;
use crate::driver::{Capture, Driver};
use mlprof_core::Action;
use mlprof_core::hook::RegionSink;
use mlprof_events::clock;

/// Region with a recorded start event. Dropping it records the end event.
pub(super) struct Region<'stream> {
    stream: Stream<'stream>,
    /// Data and events of the region. `None` after it was dropped.
    open: Option<(Opened, Pair)>,
    context: Arc<Context>,
    /// Makes the type `!Send`, because the region's action is measured on one thread.
    stays_on_its_thread: PhantomData<*const ()>,
}

impl<'stream> Region<'stream> {
    /// Opens a region. If it cannot be timed, it reports this to the sink and returns `None`.
    pub(super) fn open(
        action: Action,
        stream: Stream<'stream>,
        sink: Arc<dyn RegionSink>,
    ) -> Option<Self> {
        let opened = Opened { action, ticks: clock::ticks(), sink };
        match Self::begin(stream) {
            Ok((context, pair)) => Some(Self {
                stream,
                open: Some((opened, pair)),
                context,
                stays_on_its_thread: PhantomData,
            }),
            Err(why) => {
                opened.lose(&why);
                None
            }
        }
    }

    fn begin(stream: Stream<'stream>) -> Result<(Arc<Context>, Pair), NotTimed> {
        let driver = Driver::get()?;
        let context = stream.context(driver)?;
        if context.is_null() {
            return Err(NotTimed::NoContext);
        }
        // SAFETY: the context of a stream exists as long as the stream, and `Stream` guarantees
        // that the stream exists. For the default streams, this is the thread's own current
        // context.
        let _entered = unsafe { driver.enter(context) }?;
        // SAFETY: `Stream` guarantees that the stream exists, and its context was made current
        // above.
        if unsafe { driver.capture(stream.handle) }? == Capture::Yes {
            return Err(NotTimed::Capturing);
        }
        let context = contexts::context(driver, context)?;
        let pair = context.take_pair(driver, stream.handle)?;
        // SAFETY: `take_pair` returned an existing event of this context. The stream exists and
        // belongs to the same current context.
        match unsafe { driver.record(pair.start, stream.handle) } {
            Ok(()) => Ok((context, pair)),
            Err(failure) => {
                context.take_back(driver, pair, false);
                Err(failure.into())
            }
        }
    }

    fn end(&self, driver: &Driver, pair: &Pair) -> Result<(), NotTimed> {
        // SAFETY: `keep_primary` keeps a primary context alive since the first region. The owner of
        // any other context keeps it, as `Stream::from_raw` requires.
        let _entered = unsafe { driver.enter(self.context.handle) }?;
        // SAFETY: `Stream` guarantees that the stream exists as long as this guard, and its context
        // was made current above.
        if unsafe { driver.capture(self.stream.handle) }? == Capture::Yes {
            return Err(NotTimed::Capturing);
        }
        // SAFETY: the pair belongs to this region, so the event exists. It belongs to the stream's
        // context, which is current.
        Ok(unsafe { driver.record(pair.end, self.stream.handle) }?)
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        let (Some((opened, pair)), Ok(driver)) = (self.open.take(), Driver::get()) else { return };
        match self.end(driver, &pair) {
            Ok(()) => self.context.add_pending(self.stream.handle, opened, pair),
            Err(why) => {
                let are_good = matches!(why, NotTimed::Capturing);
                self.context.take_back(driver, pair, are_good);
                opened.lose(&why);
            }
        }
    }
}
