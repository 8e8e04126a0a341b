//! Numbers by chance, always the same ones.

/// A generator of Marsaglia's: good enough for a few million numbers.
pub(crate) struct Chance(u64);

impl Chance {
    /// The numbers of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Between 0 and 1.
    pub(crate) fn part(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Normally distributed around 0 with a deviation of 1.
    pub(crate) fn normal(&mut self) -> f64 {
        let (one, other) = (self.part(), self.part());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }
}

/// Durations whose logarithms are normally distributed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series {
    /// How many.
    pub(crate) count: usize,
    /// The correlation of each logarithm with the one before.
    pub(crate) dependence: f64,
    /// The deviation of the logarithms.
    pub(crate) deviation: f64,
}

impl Series {
    /// The durations in the order of time, of which the median is 1 without `drift`.
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
