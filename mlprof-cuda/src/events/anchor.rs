//! What the host's and the device's time lines have in common.

use crate::driver::{Driver, Failure, Handle};
use mlprof_events::clock::{self, Rate};

/// So often is an anchor taken again if it took the device long to come to it.
const ATTEMPTS: usize = 3;
/// An anchor is known well enough if it is known to so many seconds.
const GOOD_SECONDS: f64 = 30e-6;

/// An event of which it is known when it was by the host's clock.
///
/// Taken on a stream of its own, so that it waits for none of the program's work: some 20 µs each
/// time. The time that is known lies in the middle of the two readings of the host's clock around it.
pub(super) struct Anchor {
    stream: Handle,
    event: Handle,
    /// When it was, on the host's time line; or why that is not known.
    ticks: Result<u64, Failure>,
}

// SAFETY: what the pointers lead to belongs to the driver, which any thread may call.
unsafe impl Send for Anchor {}

impl Anchor {
    /// In the context that the thread works in.
    pub(super) fn take(driver: &Driver) -> Result<Self, Failure> {
        let stream = driver.create_stream()?;
        let event = match driver.create_event() {
            Ok(event) => event,
            Err(failure) => {
                // SAFETY: created above, and used nowhere.
                unsafe { driver.destroy_stream(stream) };
                return Err(failure);
            }
        };
        let mut anchor = Self { stream, event, ticks: Ok(0) };
        anchor.renew(driver);
        match anchor.ticks {
            Ok(_) => Ok(anchor),
            Err(failure) => {
                // SAFETY: created above; nobody uses them from here on.
                unsafe {
                    driver.destroy_event(anchor.event);
                    driver.destroy_stream(anchor.stream);
                }
                Err(failure)
            }
        }
    }

    /// Takes it again, so that neither the clocks' rates nor the rounding of long times matter. In the
    /// context that it was taken in. After a failure regions have no times until it is taken again.
    pub(super) fn renew(&mut self, driver: &Driver) {
        self.ticks = self.measure(driver);
    }

    fn measure(&self, driver: &Driver) -> Result<u64, Failure> {
        let rate = Rate::now();
        let mut attempts = 1;
        loop {
            let before = clock::ticks();
            // SAFETY: both are this anchor's own, of the context that the thread works in.
            unsafe {
                driver.record(self.event, self.stream)?;
                driver.synchronize(self.event)?;
            }
            let took = clock::ticks().saturating_sub(before);
            if attempts == ATTEMPTS || rate.seconds(took) <= GOOD_SECONDS {
                return Ok(before + took / 2);
            }
            attempts += 1;
        }
    }

    /// When `event` was, on the host's time line.
    ///
    /// # Safety
    ///
    /// The event exists, belongs to the same context, and is over.
    pub(super) unsafe fn ticks_of(
        &self,
        driver: &Driver,
        event: Handle,
        rate: Rate,
    ) -> Result<u64, Failure> {
        let own = self.ticks?;
        // SAFETY: as the caller says; this anchor's event is over.
        let seconds = unsafe { driver.seconds_between(self.event, event) }?;
        let ticks = rate.ticks(seconds.abs());
        Ok(match seconds < 0.0 {
            true => own.saturating_sub(ticks),
            false => own.saturating_add(ticks),
        })
    }
}
