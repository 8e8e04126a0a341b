//! Limits on the data that is used, and intervals within an epoch.

/// Limit on the batches of a loader, such as `limit_train_batches(100)` or `(0.25)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Maximum number of batches; 0 skips the stage.
    Batches(usize),
    /// Share of the batches, from 0 to 1. The loader must know its number of batches.
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

    /// Returns an error if the share is not between 0 and 1.
    pub(super) fn check(self, setting: &str) -> Result<(), String> {
        match self {
            Self::Share(share) if !(0.0..=1.0).contains(&share) => Err(format!(
                "{setting}({share:?}) is no share: use 0.0 to 1.0, or a whole number of batches"
            )),
            _ => Ok(()),
        }
    }

    /// Returns `true` if no batches are to be used.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Self::Batches(0) | Self::Share(0.0))
    }

    /// Returns the number of batches to use from a loader that has `available` batches. `None`
    /// means that the number is unknown.
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

/// Interval within a training epoch, such as `val_check_interval(0.5)` or `(100)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Interval {
    /// Number of batches between two events.
    Batches(usize),
    /// Share of an epoch between two events; 1.0 means once, at the end of the epoch.
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
    /// Returns an error if the interval is invalid.
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

    /// Returns the interval in batches for an epoch of `total` batches, if that number is known.
    /// `None` means the end of the epoch.
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
