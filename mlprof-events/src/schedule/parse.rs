//! Schedules as text, for command lines and configuration files.

use std::fmt;
use std::str::FromStr;

use super::Schedule;
use crate::ScheduleError;

/// ```
/// use mlprof_core::tensor::Schedule;
///
/// let schedule: Schedule = "wait=10, active=2, repeat=3".parse()?;
/// assert_eq!(schedule, Schedule::new().wait(10).active(2).repeat(3));
/// let error = "activ=2".parse::<Schedule>().expect_err("a typo");
/// assert!(error.to_string().contains("active"));
/// # Ok::<(), mlprof_core::tensor::ScheduleError>(())
/// ```
impl FromStr for Schedule {
    type Err = ScheduleError;

    /// Parses a schedule. Fields that the text omits have their default values.
    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let mut schedule = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim(), value.trim());
            let field = match name {
                "skip_first" => &mut schedule.skip_first,
                "skip_first_wait" => &mut schedule.skip_first_wait,
                "wait" => &mut schedule.wait,
                "warmup" => &mut schedule.warmup,
                "active" => &mut schedule.active,
                "repeat" => &mut schedule.repeat,
                _ => return Err(ScheduleError::UnknownField(name.to_owned())),
            };
            *field = value.parse().map_err(|_| ScheduleError::NotANumber {
                name: name.to_owned(),
                value: value.to_owned(),
            })?;
        }
        schedule.check()?;
        Ok(schedule)
    }
}

/// Prints all fields in the format that is parsed.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { skip_first, skip_first_wait, wait, warmup, active, repeat } = self;
        write!(f, "wait={wait},warmup={warmup},active={active},repeat={repeat}")?;
        write!(f, ",skip_first={skip_first},skip_first_wait={skip_first_wait}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Schedule>().expect_err("no schedule").to_string()
    }

    #[test]
    fn all_parts_can_be_said() {
        let text = "skip_first=1,skip_first_wait=1,wait=2,warmup=3,active=4,repeat=0";
        let expected = Schedule {
            skip_first: 1,
            skip_first_wait: 1,
            wait: 2,
            warmup: 3,
            active: 4,
            repeat: 0,
        };
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!(expected.to_string().parse(), Ok(expected));
        assert_eq!("".parse(), Ok(Schedule::default()));
    }

    #[test]
    fn errors_name_the_invalid_part() {
        assert!(error("wait").contains("wait= in a schedule: use a whole number"));
        assert!(error("wait=-1").contains("wait=-1"));
        assert!(error("first=1").contains("\"first\""));
        assert!(error("active=0").contains("active = 0"));
    }
}
