//! Instants and spans as the journal stores them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// An instant in microseconds since the Unix epoch, UTC.
///
/// Serialised as a bare integer. Microseconds fit an exact JSON number until the year 2255.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// From microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    /// From milliseconds since the epoch; saturates.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis.saturating_mul(1000))
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the epoch, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This instant plus `span`; saturates at the far future.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Timestamp(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Reads an instant in RFC 3339 form, with `Z` or an offset, and up to nine digits of a second of which six are kept.
    /// The date and the time may be separated by a space.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_once(['T', 't', ' '])?;
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let zone = rest.rfind(['Z', 'z', '+', '-'])?;
        let (time, zone) = rest.split_at(zone);
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
        if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
        let offset = match zone {
            "Z" | "z" => 0,
            zone => {
                let [hours, minutes] = numbers(zone.get(1..)?, ':', [2, 2])?;
                let minutes = (hours <= 23 && minutes <= 59).then_some(hours * 60 + minutes)?;
                if zone.starts_with('-') { -minutes } else { minutes }
            }
        };
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
        // A leap second is the next one.
        if !is_date || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let days = days_from_civil(year, month, day);
        // Days beyond the end of a month come back as days of the next one.
        if civil_from_days(days) != (year, month, day) {
            return None;
        }
        let seconds = days * 86_400 + hour * 3600 + (minute - offset) * 60 + second;
        Some(Timestamp(seconds * 1_000_000 + micros))
    }

    /// The span from `earlier` to this instant; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC with microseconds, for example `2026-11-30T05:47:36.000120Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1_000_000);
        let micros = self.0.rem_euclid(1_000_000);
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let second_of_day = seconds.rem_euclid(86_400);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
            second_of_day / 3600,
            second_of_day / 60 % 60,
            second_of_day % 60
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Days since the epoch to a proleptic Gregorian date: Howard Hinnant's `civil_from_days`. Kept here because core
/// needs no calendar but this one, and a calendar library is a heavy thing to put under everything.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Numbers of so many digits each, with something between them.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(between);
    for (number, digits) in found.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_read_in_every_form_that_people_write() {
        let micros = |text: &str| Timestamp::parse(text).map(Timestamp::as_micros);
        assert_eq!(micros("2026-11-30T05:47:36.000120Z"), Some(1_796_017_656_000_120));
        assert_eq!(micros("2026-11-30 05:47:36.0001209+00:00"), Some(1_796_017_656_000_120));
        assert_eq!(micros("2026-11-30T06:47:36.00012+01:00"), Some(1_796_017_656_000_120));
        assert_eq!(micros("2026-11-29T23:17:36-06:30"), Some(1_796_017_656_000_000));
        for text in [
            "",
            "2026-11-30",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T05:47:36",
            "2026-11-30T05:47:36.Z",
            "2026-11-30T05:47:36+1:00",
            "+026-11-30T05:47:36Z",
        ] {
            assert_eq!(micros(text), None, "{text}");
        }
        for micros in [0, -1, 951_782_400_000_000, 1_796_017_656_000_120, -62_135_596_800_000_000] {
            let instant = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::parse(&instant.to_string()), Some(instant));
        }
    }

    #[test]
    fn display_is_rfc_3339() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_796_017_656_000_120, "2026-11-30T05:47:36.000120Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn since_never_goes_negative() {
        let (a, b) = (Timestamp::from_millis(5), Timestamp::from_millis(7));
        assert_eq!(b.since(a), Duration::from_millis(2));
        assert_eq!(a.since(b), Duration::ZERO);
        assert_eq!(a.plus(Duration::MAX).as_micros(), i64::MAX);
    }
}
