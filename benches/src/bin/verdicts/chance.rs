//! Reproducible random numbers.

/// One of Marsaglia's generators, whose quality is sufficient for a few million numbers.
pub(crate) struct Chance(u64);

impl Chance {
    /// Creates the generator with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a uniformly distributed number between 0 and 1.
    pub(crate) fn part(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Returns a normally distributed number with mean 0 and standard deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        let (one, other) = (self.part(), self.part());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }
}

/// Parameters of log-normally distributed durations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series {
    /// Number of durations.
    pub(crate) count: usize,
    /// Correlation of each logarithm with the previous one.
    pub(crate) dependence: f64,
    /// Standard deviation of the logarithms.
    pub(crate) deviation: f64,
}

impl Series {
    /// Returns the durations in time order. Without `drift`, their median is 1.
    pub(crate) fn durations(self, drift: &dyn Fn(f64) -> f64, chance: &mut Chance) -> Vec<f64> {
        let own = (1.0 - self.dependence * self.dependence).sqrt();
        let mut state = chance.normal();
        let one = |index| {
            let duration = (self.deviation * state).exp() * drift(index as f64 / self.count as f64);
            state = self.dependence * state + own * chance.normal();
            duration
        };
        (0..self.count).map(one).collect()
    }
}
