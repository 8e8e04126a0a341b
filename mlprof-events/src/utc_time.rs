//! Points in time in reports: UTC, in RFC 3339.

use std::fmt;
use std::ops::{AddAssign, SubAssign};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANOSECONDS: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// A wall-clock time in UTC with a resolution of a nanosecond, between the years 1677 and 2262.
///
/// JSON and [`Display`](fmt::Display) use RFC 3339, with 0, 3, 6 or 9 fractional digits as needed.
///
/// # Examples
///
/// ```
/// use mlprof_core::report::UtcTime;
///
/// let time: UtcTime = "2026-01-02T03:04:05.25Z".parse()?;
/// assert_eq!(time.to_string(), "2026-01-02T03:04:05.250Z");
/// assert_eq!(time.date_and_time(), "2026-01-02 03:04:05");
/// # Ok::<(), mlprof_core::report::ParseTimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UtcTime {
    nanoseconds: i64,
}

impl UtcTime {
    /// The beginning of Unix time: 1970-01-01T00:00:00Z.
    #[doc(hidden)]
    pub const UNIX_EPOCH: Self = Self { nanoseconds: 0 };

    /// Returns the point in time at `nanoseconds` of Unix time.
    #[doc(hidden)]
    pub fn from_unix_nanoseconds(nanoseconds: i64) -> Self {
        Self { nanoseconds }
    }

    /// Returns Unix time in nanoseconds.
    #[doc(hidden)]
    pub fn unix_nanoseconds(self) -> i64 {
        self.nanoseconds
    }

    /// Returns the time from `other` to this one in seconds, negative if `other` is later.
    #[doc(hidden)]
    pub fn seconds_since(self, other: Self) -> f64 {
        (i128::from(self.nanoseconds) - i128::from(other.nanoseconds)) as f64 * 1e-9
    }

    /// Returns the point in time that is later by `span`, or `None` if it is out of range.
    #[doc(hidden)]
    pub fn checked_add(self, span: Duration) -> Option<Self> {
        let span = i64::try_from(span.as_nanos()).ok()?;
        self.nanoseconds.checked_add(span).map(Self::from_unix_nanoseconds)
    }

    /// Returns the date and the time to the second, as in `2026-01-02 03:04:05`.
    #[doc(hidden)]
    pub fn date_and_time(self) -> String {
        let (year, month, day) = self.date();
        format!("{year:04}-{month:02}-{day:02} {}", self.time_of_day())
    }

    /// Returns the time of the day to the second, as in `03:04:05`.
    #[doc(hidden)]
    pub fn time_of_day(self) -> String {
        let second = self.nanoseconds.div_euclid(NANOSECONDS).rem_euclid(SECONDS_PER_DAY);
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    }

    /// Returns year, month and day. In this calculation years begin in March, so that the leap day
    /// is the last day of its year. An era has 400 years, or 146,097 days.
    fn date(self) -> (i64, i64, i64) {
        let days = self.nanoseconds.div_euclid(NANOSECONDS * SECONDS_PER_DAY) + DAYS_TO_1970;
        let (era, day) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        (era * 400 + year + i64::from(month <= 2), month, day)
    }
}

const DAYS_PER_ERA: i64 = 146_097;

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_TO_1970: i64 = 719_468;

/// Returns the days from 1970-01-01 to a date, or `None` if the date does not exist.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * DAYS_PER_ERA + year * 365 + year / 4 - year / 100 + day - DAYS_TO_1970)
}

impl From<SystemTime> for UtcTime {
    /// Converts a system time. A time out of range becomes the first or last valid one.
    fn from(time: SystemTime) -> Self {
        let nanoseconds = |span: Duration| i64::try_from(span.as_nanos());
        Self::from_unix_nanoseconds(match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => nanoseconds(since).unwrap_or(i64::MAX),
            Err(before) => nanoseconds(before.duration()).map_or(i64::MIN, |span| -span),
        })
    }
}

impl AddAssign<Duration> for UtcTime {
    /// Adds a span, saturating at the end of the range.
    fn add_assign(&mut self, span: Duration) {
        let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        self.nanoseconds = self.nanoseconds.saturating_add(span);
    }
}

impl SubAssign<Duration> for UtcTime {
    /// Subtracts a span, saturating at the beginning of the range.
    fn sub_assign(&mut self, span: Duration) {
        let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        self.nanoseconds = self.nanoseconds.saturating_sub(span);
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        write!(formatter, "{year:04}-{month:02}-{day:02}T{}", self.time_of_day())?;
        match self.nanoseconds.rem_euclid(NANOSECONDS) {
            0 => {}
            rest if rest % 1_000_000 == 0 => write!(formatter, ".{:03}", rest / 1_000_000)?,
            rest if rest % 1000 == 0 => write!(formatter, ".{:06}", rest / 1000)?,
            rest => write!(formatter, ".{rest:09}")?,
        }
        formatter.write_str("Z")
    }
}

impl fmt::Debug for UtcTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Error for a text that cannot be parsed as a point in time.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot parse the time {text:?}: use RFC 3339 such as 2026-01-02T03:04:05Z, within the years \
     1677 to 2262"
)]
pub struct ParseTimeError {
    text: String,
}

crate::debug_as_display!(ParseTimeError);

impl FromStr for UtcTime {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        parse(text).ok_or_else(|| ParseTimeError { text: text.chars().take(80).collect() })
    }
}

fn parse(text: &str) -> Option<UtcTime> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let (time, offset) = time.split_at_checked(time.len().checked_sub("+01:00".len())?)?;
            let (sign, offset) = match offset.strip_prefix('+') {
                Some(offset) => (1, offset),
                None => (-1, offset.strip_prefix('-')?),
            };
            let [hours, minutes] = numbers(offset, ':', [2, 2])?;
            (time, sign * ((hours < 24 && minutes < 60).then_some(hours * 60 + minutes)? * 60))
        }
    };
    let (time, fraction) = match time.split_once('.') {
        Some((time, fraction)) => (time, fraction_of(fraction)?),
        None => (time, 0),
    };
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    // A leap second counts as the last second of its minute.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_of(year, month, day)? * SECONDS_PER_DAY - offset
        + (hour * 60 + minute) * 60
        + second.min(59);
    let nanoseconds = i128::from(seconds) * i128::from(NANOSECONDS) + i128::from(fraction);
    i64::try_from(nanoseconds).ok().map(UtcTime::from_unix_nanoseconds)
}

/// Parses `N` numbers with fixed digit counts, separated by `separator`.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits)?;
        *number = number_of(part)?;
    }
    parts.next().is_none().then_some(numbers)
}

fn number_of(digits: &str) -> Option<i64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// Parses the fraction of a second in nanoseconds. Digits after the ninth are ignored.
fn fraction_of(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let known = &digits[..digits.len().min(9)];
    Some(number_of(known)? * 10_i64.pow(9 - known.len() as u32))
}

impl Serialize for UtcTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UtcTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn time(text: &str) -> UtcTime {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn known_times_are_where_unix_time_has_them() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2001-09-09T01:46:40Z", 1_000_000_000),
            ("2038-01-19T03:14:08Z", 1 << 31),
            ("1969-12-31T23:59:59Z", -1),
            ("1900-03-01T00:00:00Z", -2_203_891_200),
        ] {
            assert_eq!(time(text).unix_nanoseconds(), seconds * NANOSECONDS, "{text}");
            assert_eq!(time(text).to_string(), text);
        }
    }

    #[test]
    fn dates_are_those_of_pythons_datetime() {
        for (text, seconds) in [
            ("1677-09-21T00:12:44Z", -9_223_372_036),
            ("1678-01-01T00:00:00Z", -9_214_560_000),
            ("1689-11-26T06:04:08Z", -8_838_957_352),
            ("1699-12-31T23:59:59Z", -8_520_336_001),
            ("1700-02-28T23:59:59Z", -8_515_238_401),
            ("1700-03-01T00:00:00Z", -8_515_238_400),
            ("1752-09-03T12:00:00Z", -6_858_129_600),
            ("1757-09-26T04:08:11Z", -6_698_404_309),
            ("1773-05-24T11:04:48Z", -6_204_257_712),
            ("1800-02-28T00:00:00Z", -5_359_651_200),
            ("1800-03-01T00:00:00Z", -5_359_564_800),
            ("1830-05-31T03:14:23Z", -4_405_005_937),
            ("1889-12-19T08:53:09Z", -2_525_612_811),
            ("1899-12-31T23:59:59Z", -2_208_988_801),
            ("1904-02-29T06:07:08Z", -2_077_725_172),
            ("1968-02-29T00:00:00Z", -58_060_800),
            ("1969-12-31T00:00:00Z", -86_400),
            ("1972-02-29T23:59:59Z", 68_255_999),
            ("1972-12-31T23:59:59Z", 94_694_399),
            ("1999-12-31T23:59:59Z", 946_684_799),
            ("2000-02-28T23:59:59Z", 951_782_399),
            ("2000-02-29T00:00:00Z", 951_782_400),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("2000-12-31T23:59:59Z", 978_307_199),
            ("2024-02-29T13:14:15Z", 1_709_212_455),
            ("2026-11-27T20:08:30Z", 1_795_810_110),
            ("2028-12-31T00:00:01Z", 1_861_833_601),
            ("2096-02-29T00:00:00Z", 3_981_312_000),
            ("2100-02-28T23:59:59Z", 4_107_542_399),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
            ("2113-08-21T21:29:27Z", 4_532_794_167),
            ("2152-02-16T18:52:10Z", 5_747_395_930),
            ("2200-12-31T23:59:59Z", 7_289_654_399),
            ("2241-07-22T18:43:37Z", 8_569_478_617),
            ("2261-12-31T23:59:59Z", 9_214_646_399),
            ("2262-04-11T23:47:16Z", 9_223_372_036),
        ] {
            let known = UtcTime::from_unix_nanoseconds(seconds * NANOSECONDS);
            assert_eq!(time(text), known, "{text}");
            assert_eq!(known.to_string(), text);
        }
    }

    #[test]
    fn the_first_and_the_last_time_are_read_as_they_were_written() {
        for (text, nanoseconds) in [
            ("1677-09-21T00:12:43.145224192Z", i64::MIN),
            ("2262-04-11T23:47:16.854775807Z", i64::MAX),
        ] {
            assert_eq!(UtcTime::from_unix_nanoseconds(nanoseconds).to_string(), text);
            assert_eq!(time(text).unix_nanoseconds(), nanoseconds);
        }
        for text in ["1677-09-21T00:12:43.145224191Z", "2262-04-11T23:47:16.854775808Z"] {
            assert!(text.parse::<UtcTime>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_day_is_read_as_it_was_written() {
        for day in (-100_000..100_000).step_by(13) {
            let written = UtcTime::from_unix_nanoseconds(day * SECONDS_PER_DAY * NANOSECONDS + 1);
            assert_eq!(time(&written.to_string()), written);
        }
        let days = (0..800)
            .map(|day| UtcTime::from_unix_nanoseconds(day * SECONDS_PER_DAY * NANOSECONDS).date());
        let days: Vec<_> = days.collect();
        assert!(days.is_sorted_by(|one, next| one < next), "{days:?}");
        assert_eq!((days[58], days[59], days[789]), ((1970, 2, 28), (1970, 3, 1), (1972, 2, 29)));
    }

    #[test]
    fn fractions_have_as_many_digits_as_they_need() {
        for text in ["05.250Z", "05.000250Z", "05.000000001Z", "05Z"] {
            let text = format!("2026-01-02T03:04:{text}");
            assert_eq!(time(&text).to_string(), text);
        }
        assert_eq!(time("2026-01-02T03:04:05.25Z").to_string(), "2026-01-02T03:04:05.250Z");
        assert_eq!(time("2026-01-02 03:04:05.1234567891Z"), time("2026-01-02T03:04:05.123456789Z"));
    }

    #[test]
    fn other_time_zones_are_utc_when_read() {
        assert_eq!(time("2026-01-02T01:04:05+02:30").to_string(), "2026-01-01T22:34:05Z");
        assert_eq!(time("2026-01-02T01:04:05-02:30").to_string(), "2026-01-02T03:34:05Z");
    }

    #[test]
    fn other_texts_are_errors_that_name_them() {
        for text in [
            "",
            "2026",
            "2026-01-02",
            "2026-01-02T03:04Z",
            "2026-01-02T03:04:05",
            "2026-02-29T03:04:05Z",
            "2026-13-02T03:04:05Z",
            "2026-00-02T03:04:05Z",
            "2026-01-00T03:04:05Z",
            "2026-01-02T24:04:05Z",
            "2026-01-02T03:60:05Z",
            "2026-01-02T03:04:61Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05.xZ",
            "2026-01-02T03:04:05+1:00",
            "2026-01-02T03:04:05+24:00",
            "+026-01-02T03:04:05Z",
            "9999-01-02T03:04:05Z",
            "2026-01-02T03:04:05ä1:00",
        ] {
            let error = text.parse::<UtcTime>().expect_err(text);
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn json_has_the_text() {
        let text = "\"2026-01-02T03:04:05.500Z\"";
        let time: UtcTime = serde_json::from_str(text).expect("a time");
        assert_eq!(serde_json::to_string(&time).expect("JSON"), text);
        assert!(serde_json::from_str::<UtcTime>("\"yesterday\"").is_err());
    }

    #[test]
    fn sums_stay_in_the_range() {
        let mut time = UtcTime::from(SystemTime::UNIX_EPOCH - Duration::from_millis(1500));
        assert_eq!(time.to_string(), "1969-12-31T23:59:58.500Z");
        time += Duration::from_millis(2500);
        assert_eq!(time.seconds_since(UtcTime::UNIX_EPOCH), 1.0);
        assert_eq!(time.checked_add(Duration::MAX), None);
        time += Duration::MAX;
        assert_eq!(time.checked_add(Duration::from_nanos(1)), None);
        assert_eq!(time.unix_nanoseconds(), i64::MAX);
        time -= Duration::from_secs(1);
        assert_eq!(time.seconds_since(UtcTime::from_unix_nanoseconds(i64::MAX)), -1.0);
    }
}
