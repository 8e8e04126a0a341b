//! Reference point between the time lines of the host and the device.

use crate::driver::{Driver, Failure, Handle};
use mlprof_events::clock::{self, Rate};

/// Maximum number of attempts if the device takes long to reach the anchor.
const ATTEMPTS: usize = 3;
/// Uncertainty in seconds that is accurate enough.
const GOOD_SECONDS: f64 = 30e-6;

/// Event with a known time on the host's clock.
///
/// The anchor is recorded on a stream of its own, so it does not wait for the program's work. This
/// takes about 20 µs each time. Its host time is the middle of two clock readings around it.
pub(super) struct Anchor {
    stream: Handle,
    event: Handle,
    /// Time of the event in host clock ticks, or the reason why it is unknown.
    ticks: Result<u64, Failure>,
}

// SAFETY: the fields are opaque driver handles that only the driver dereferences. The driver
// functions may be called from any thread.
unsafe impl Send for Anchor {}

impl Anchor {
    /// Creates an anchor in the thread's current context.
    pub(super) fn take(driver: &Driver) -> Result<Self, Failure> {
        let stream = driver.create_stream()?;
        let event = match driver.create_event() {
            Ok(event) => event,
            Err(failure) => {
                // SAFETY: the stream was created above, and it is not used afterwards.
                unsafe { driver.destroy_stream(stream) };
                return Err(failure);
            }
        };
        let mut anchor = Self { stream, event, ticks: Ok(0) };
        anchor.renew(driver);
        match anchor.ticks {
            Ok(_) => Ok(anchor),
            Err(failure) => {
                // SAFETY: the event and the stream were created above, and they are not used
                // afterwards.
                unsafe {
                    driver.destroy_event(anchor.event);
                    driver.destroy_stream(anchor.stream);
                }
                Err(failure)
            }
        }
    }

    /// Records the anchor again, so that clock drift and the rounding of long times do not matter.
    /// The context in which it was created must be current. After a failure, regions have no times
    /// until the next success.
    pub(super) fn renew(&mut self, driver: &Driver) {
        self.ticks = self.measure(driver);
    }

    fn measure(&self, driver: &Driver) -> Result<u64, Failure> {
        let rate = Rate::now();
        let mut attempts = 1;
        loop {
            let before = clock::ticks();
            // SAFETY: the event and the stream belong to this anchor, so they exist. Both belong to
            // the thread's current context, which is the one in which the anchor was created.
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

    /// Returns the time of `event` in host clock ticks.
    ///
    /// # Safety
    ///
    /// The event must exist, belong to the anchor's context, and have completed.
    pub(super) unsafe fn ticks_of(
        &self,
        driver: &Driver,
        event: Handle,
        rate: Rate,
    ) -> Result<u64, Failure> {
        let own = self.ticks?;
        // SAFETY: the caller guarantees that `event` exists, belongs to the same context and has
        // completed. This anchor's event was recorded and has completed, because `ticks` is known.
        let seconds = unsafe { driver.seconds_between(self.event, event) }?;
        let ticks = rate.ticks(seconds.abs());
        Ok(match seconds < 0.0 {
            true => own.saturating_sub(ticks),
            false => own.saturating_add(ticks),
        })
    }
}
