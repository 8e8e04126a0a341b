//! Durations of calls: their number, sum and distribution.

use mlprof_core::Distribution;

/// Calls and their durations, in ticks of the [clock](mlprof_events::clock).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    pub(crate) calls: u64,
    pub(crate) ticks: u64,
    distribution: Distribution,
}

impl Durations {
    /// Adds a finished call.
    pub(crate) fn add(&mut self, ticks: u64) {
        self.calls += 1;
        self.ticks = self.ticks.saturating_add(ticks);
        self.distribution.add(ticks);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.distribution.merge(&other.distribution);
    }

    /// Returns the duration in ticks that a share of all calls does not exceed, with a precision of
    /// one eighth. Returns `None` if there are no calls.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        (self.calls > 0).then(|| self.distribution.quantile(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_an_eighth() {
        let mut all = Durations::default();
        assert_eq!(all.quantile(0.5), None);
        (1..=100).for_each(|call| all.add(call * 1_000_000));
        for (share, ticks) in [(0.5, 50_000_000.0), (0.99, 99_000_000.0), (1.0, 100_000_000.0)] {
            let found = all.quantile(share).expect("calls") as f64;
            assert!((ticks / 1.125..ticks * 1.125).contains(&found), "{share}: {found}");
        }
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!((twice.calls, twice.ticks), (200, 2 * all.ticks));
        let [once, twice] = [all, twice].map(|it| it.quantile(0.5).expect("calls"));
        assert!(once.abs_diff(twice) * 50 < once, "within the same bucket: {once} and {twice}");
    }
}
