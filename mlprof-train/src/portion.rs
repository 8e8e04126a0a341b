//! A part of the batches of a loader or of an epoch.

/// A part of the batches of a loader or of an epoch: `limit_train_batches(100)`,
/// `limit_train_batches(0.25)`, `val_check_interval(0.5)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Portion {
    /// A number of batches.
    Batches(usize),
    /// A share of the batches, from 0 to 1. The loader must know how many it has.
    Share(f64),
}

impl From<usize> for Portion {
    fn from(batches: usize) -> Self {
        Self::Batches(batches)
    }
}

impl From<f64> for Portion {
    fn from(share: f64) -> Self {
        Self::Share(share)
    }
}

impl Portion {
    pub(super) const ALL: Self = Self::Share(1.0);

    /// Refuses a limit that is not a share of a loader.
    pub(super) fn check_limit(self, setting: &str) -> Result<(), String> {
        match self {
            Self::Share(share) if !(0.0..=1.0).contains(&share) => Err(format!(
                "{setting}({share:?}) is not a share: use 0.0 to 1.0, or a whole number of batches"
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether the portion is empty.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Self::Batches(0) | Self::Share(0.0))
    }

    /// Returns the number of batches of a loader that has `available`, if that is known.
    pub(super) fn limit_of(
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
                        "{setting}({share}) of {available} batches is less than one batch: use a \
                         larger share, or a number of batches"
                    ));
                }
                Ok(Some(batches))
            }
            (Self::Share(share), None) => Err(unknown_length(setting, share)),
        }
    }

    /// Refuses a portion that is not an interval.
    pub(super) fn check_interval(self, setting: &str) -> Result<(), String> {
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
            "{setting}({given}) is not an interval: use a share of an epoch above 0.0 up to 1.0, or \
             a number of batches from 1"
        ))
    }

    /// Returns the number of batches between two events in an epoch of `total`; `None` for one at
    /// its end.
    pub(super) fn interval_of(
        self,
        total: Option<usize>,
        setting: &str,
    ) -> Result<Option<usize>, String> {
        match (self, total) {
            (Self::Share(1.0), _) => Ok(None),
            (Self::Batches(batches), Some(total)) if batches > total => Err(format!(
                "{setting}({batches}) is more than the {total} batches of an epoch, so validation \
                 would never run: use at most {total}"
            )),
            (Self::Batches(batches), _) => Ok(Some(batches)),
            (Self::Share(share), Some(total)) => Ok(Some(((total as f64 * share) as usize).max(1))),
            (Self::Share(share), None) => Err(unknown_length(setting, share)),
        }
    }
}

/// Returns the error for a share of a loader that does not report its number of batches.
fn unknown_length(setting: &str, share: f64) -> String {
    format!(
        "{setting}({share}) needs a loader with a known number of batches (an exact size_hint of \
         its iterator); use a number of batches instead"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_counted_from_batches_or_a_share() {
        assert_eq!(Portion::from(3).limit_of(Some(10), "limit"), Ok(Some(3)));
        assert_eq!(Portion::from(30).limit_of(Some(10), "limit"), Ok(Some(10)));
        assert_eq!(Portion::from(30).limit_of(None, "limit"), Ok(Some(30)));
        assert_eq!(Portion::from(0.25).limit_of(Some(10), "limit"), Ok(Some(2)));
        assert_eq!(Portion::ALL.limit_of(None, "limit"), Ok(None));
        assert!(Portion::from(0.5).limit_of(None, "limit").is_err());
        assert!(Portion::from(0.05).limit_of(Some(10), "limit").is_err());
        assert!(Portion::from(1.5).check_limit("limit").is_err());
        assert!(Portion::from(f64::NAN).check_limit("limit").is_err());
    }

    #[test]
    fn intervals_are_refused_when_they_would_never_come() {
        assert_eq!(Portion::from(1.0).interval_of(None, "interval"), Ok(None));
        assert_eq!(Portion::from(0.5).interval_of(Some(5), "interval"), Ok(Some(2)));
        assert_eq!(Portion::from(4).interval_of(None, "interval"), Ok(Some(4)));
        assert!(Portion::from(6).interval_of(Some(5), "interval").is_err());
        assert!(Portion::from(0.5).interval_of(None, "interval").is_err());
        assert!(Portion::from(0).check_interval("interval").is_err());
        assert!(Portion::from(0.0).check_interval("interval").is_err());
    }
}
