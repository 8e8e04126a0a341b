//! Device counters: one track per device and counter, which viewers draw as a curve.

use std::io::{self, Write};

use super::Writer;

impl<W: Write> Writer<'_, W> {
    /// Writes all samples. Their times are those of the host's clock, so they are not shifted like
    /// device events.
    pub(super) fn counters(&mut self) -> io::Result<()> {
        let cycle = self.cycle;
        // JSON cannot represent numbers that are not finite.
        for sample in cycle.device_counters.iter().filter(|sample| sample.value.is_finite()) {
            self.separate()?;
            let (device, counter) = (sample.device, sample.counter);
            self.json.raw("{\"ph\":\"C\",\"cat\":\"device_counter\",\"name\":");
            self.json.string(&format!("GPU {device} {} ({})", counter.name(), counter.unit()));
            self.place(u64::from(device), 0, self.time(sample.time));
            self.json.raw(",\"args\":{\"value\":");
            self.json.raw(sample.value.to_string());
            self.json.raw("}}");
        }
        Ok(())
    }
}
