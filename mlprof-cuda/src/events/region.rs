//! A region that is open.

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

/// A region whose first event is in its stream; the second one follows when this is dropped.
pub(super) struct Region<'stream> {
    stream: Stream<'stream>,
    /// `None` once it is dropped.
    open: Option<(Opened, Pair)>,
    context: Arc<Context>,
    /// Its action is measured on one thread.
    stays_on_its_thread: PhantomData<*const ()>,
}

impl<'stream> Region<'stream> {
    /// Begins a region; `None` if it cannot be timed, of which the sink is told.
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
        // SAFETY: a stream's context exists as long as the stream; the thread's own exists.
        let _entered = unsafe { driver.enter(context) }?;
        // SAFETY: the stream exists, and this is its context.
        if unsafe { driver.capture(stream.handle) }? == Capture::Yes {
            return Err(NotTimed::Capturing);
        }
        let context = contexts::context(driver, context)?;
        let pair = context.take_pair(driver, stream.handle)?;
        // SAFETY: the event is of this context, as the stream is.
        match unsafe { driver.record(pair.start, stream.handle) } {
            Ok(()) => Ok((context, pair)),
            Err(failure) => {
                context.take_back(driver, pair, false);
                Err(failure.into())
            }
        }
    }

    fn end(&self, driver: &Driver, pair: &Pair) -> Result<(), NotTimed> {
        // SAFETY: the context is kept since its first region.
        let _entered = unsafe { driver.enter(self.context.handle) }?;
        // SAFETY: the stream exists as long as this guard, and this is its context.
        if unsafe { driver.capture(self.stream.handle) }? == Capture::Yes {
            return Err(NotTimed::Capturing);
        }
        // SAFETY: the event is of this context, as the stream is.
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
