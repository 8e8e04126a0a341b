//! How much of the data is used, and how often.

/// How many batches of a loader are used: `limit_train_batches(100)` or `(0.25)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// So many; 0 skips the stage.
    Batches(usize),
    /// This share of them, from 0 to 1; needs a loader that knows how many it has.
    Share(f64),
}

impl From<usize> for Limit {
    fn from(batches: usize) -> Self {
        Self::Batches(batches)
    }
}

impl From<f64> for Limit {
    fn from(share: f64) -> Self {
        Self::Share(share)
    }
}

impl Limit {
    pub(super) const ALL: Self = Self::Share(1.0);

    /// Refuses a share that is none.
    pub(super) fn check(self, setting: &str) -> Result<(), String> {
        match self {
            Self::Share(share) if !(0.0..=1.0).contains(&share) => Err(format!(
                "{setting}({share:?}) is no share: use 0.0 to 1.0, or a whole number of batches"
            )),
            _ => Ok(()),
        }
    }

    /// Whether nothing is to be used at all.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Self::Batches(0) | Self::Share(0.0))
    }

    /// How many batches of a loader that has `available`, if it knows.
    pub(super) fn of(
        self,
        available: Option<usize>,
        setting: &str,
    ) -> Result<Option<usize>, String> {
        match (self, available) {
            (Self::Batches(limit), Some(available)) => Ok(Some(limit.min(available))),
            (Self::Batches(limit), None) => Ok(Some(limit)),
            (Self::Share(1.0), available) => Ok(available),
            (Self::Share(share), Some(available)) => {
                let batches = (available as f64 * share) as usize;
                if batches == 0 && share > 0.0 && available > 0 {
                    return Err(format!(
                        "{setting}({share}) of {available} batches is less than one batch"
                    ));
                }
                Ok(Some(batches))
            }
            (Self::Share(share), None) => Err(format!(
                "{setting}({share}) needs a loader that knows how many batches it has (an exact \
                 size_hint of its iterator); give a number of batches instead"
            )),
        }
    }
}

/// How often something happens within a training epoch: `val_check_interval(0.5)` or `(100)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Interval {
    /// After every so many batches.
    Batches(usize),
    /// After this share of an epoch; 1.0 is once, at its end.
    Share(f64),
}

impl From<usize> for Interval {
    fn from(batches: usize) -> Self {
        Self::Batches(batches)
    }
}

impl From<f64> for Interval {
    fn from(share: f64) -> Self {
        Self::Share(share)
    }
}

impl Interval {
    /// Refuses what is no interval.
    pub(super) fn check(self, setting: &str) -> Result<(), String> {
        let is_valid = match self {
            Self::Batches(batches) => batches > 0,
            Self::Share(share) => share > 0.0 && share <= 1.0,
        };
        if is_valid {
            return Ok(());
        }
        let given = match self {
            Self::Batches(batches) => batches.to_string(),
            Self::Share(share) => format!("{share:?}"),
        };
        Err(format!(
            "{setting}({given}) is no interval: use a share of an epoch above 0.0 up to 1.0, or a \
             number of batches from 1"
        ))
    }

    /// After how many batches of an epoch that has `total`, if that is known. `None`: at its end.
    pub(super) fn of(self, total: Option<usize>, setting: &str) -> Result<Option<usize>, String> {
        match (self, total) {
            (Self::Share(1.0), _) => Ok(None),
            (Self::Batches(batches), Some(total)) if batches > total => Err(format!(
                "{setting}({batches}) is more than the {total} batches of an epoch: validation \
                 would never run"
            )),
            (Self::Batches(batches), _) => Ok(Some(batches)),
            (Self::Share(share), Some(total)) => Ok(Some(((total as f64 * share) as usize).max(1))),
            (Self::Share(share), None) => Err(format!(
                "{setting}({share}) needs a loader that knows how many batches it has (an exact \
                 size_hint of its iterator); give a number of batches instead"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_counted_from_batches_or_a_share() {
        assert_eq!(Limit::from(3).of(Some(10), "limit"), Ok(Some(3)));
        assert_eq!(Limit::from(30).of(Some(10), "limit"), Ok(Some(10)));
        assert_eq!(Limit::from(30).of(None, "limit"), Ok(Some(30)));
        assert_eq!(Limit::from(0.25).of(Some(10), "limit"), Ok(Some(2)));
        assert_eq!(Limit::ALL.of(None, "limit"), Ok(None));
        assert!(Limit::from(0.5).of(None, "limit").is_err());
        assert!(Limit::from(0.05).of(Some(10), "limit").is_err());
        assert!(Limit::from(1.5).check("limit").is_err());
        assert!(Limit::from(f64::NAN).check("limit").is_err());
    }

    #[test]
    fn intervals_are_refused_when_they_would_never_come() {
        assert_eq!(Interval::from(1.0).of(None, "interval"), Ok(None));
        assert_eq!(Interval::from(0.5).of(Some(5), "interval"), Ok(Some(2)));
        assert_eq!(Interval::from(4).of(None, "interval"), Ok(Some(4)));
        assert!(Interval::from(6).of(Some(5), "interval").is_err());
        assert!(Interval::from(0.5).of(None, "interval").is_err());
        assert!(Interval::from(0).check("interval").is_err());
        assert!(Interval::from(0.0).check("interval").is_err());
    }
}
