//! Cron expressions with a time zone.

use jiff::Timestamp as Instant;
use placet_core::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// When something happens again and again: five fields (minute, hour, day of the month, month, day of the week) in a time
/// zone.
///
/// Names (`MON`, `jan`), `7` for Sunday, lists, ranges and steps are taken, as are `@yearly`, `@monthly`, `@weekly`,
/// `@daily` and `@hourly`. Where both days are restricted, either of them is enough. A minute that the clocks skip does not
/// occur on that day; one that they repeat occurs twice.
///
/// ```
/// use placet_core::Timestamp;
/// use placet_runtime::schedule::Cron;
/// let cron = Cron::parse("0 8 * * MON-FRI", "Europe/Berlin")?;
/// assert_eq!(cron.next_after(Timestamp::EPOCH).map(|at| at.to_string()).as_deref(), Some("1970-01-01T07:00:00.000000Z"));
/// # Ok::<_, placet_runtime::schedule::InvalidCron>(())
/// ```
#[derive(Clone)]
pub struct Cron {
    expression: String,
    zone: String,
    crontab: cronexpr::Crontab,
}

impl Cron {
    /// Reads an expression. The zone is a name of the IANA database, such as `Europe/Berlin` or `UTC`.
    ///
    /// # Errors
    /// [`InvalidCron`] with what is wrong.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, InvalidCron> {
        let invalid = |problem: String| InvalidCron { expression: cut(expression), zone: cut(zone), problem };
        if jiff::tz::TimeZone::get(zone).is_err() {
            return Err(invalid("there is no such time zone; give a name such as Europe/Berlin or UTC".to_owned()));
        }
        let fields = match expression.trim().to_ascii_lowercase().as_str() {
            "@yearly" | "@annually" => "0 0 1 1 *".to_owned(),
            "@monthly" => "0 0 1 * *".to_owned(),
            "@weekly" => "0 0 * * 0".to_owned(),
            "@daily" | "@midnight" => "0 0 * * *".to_owned(),
            "@hourly" => "0 * * * *".to_owned(),
            _ => expression.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        if fields.split(' ').count() != 5 {
            return Err(invalid(
                "expected five fields: minute, hour, day of the month, month, day of the week".to_owned(),
            ));
        }
        let crontab =
            cronexpr::parse_crontab(&format!("{fields} {zone}")).map_err(|error| invalid(error.to_string()))?;
        let cron = Cron { expression: expression.trim().to_owned(), zone: zone.to_owned(), crontab };
        if cron.next_after(Timestamp::from_micros(1_767_225_600_000_000)).is_none() {
            return Err(invalid("it never happens".to_owned()));
        }
        Ok(cron)
    }

    /// The first time strictly after an instant; nothing where there is none within four years.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = Instant::from_microsecond(after.as_micros()).ok()?;
        let next = self.crontab.find_next(cronexpr::MakeTimestamp(after)).ok()?;
        Some(Timestamp::from_micros(next.timestamp().as_microsecond()))
    }

    /// The expression, as it was given.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The time zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone
    }
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.expression, self.zone)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        (&self.expression, &self.zone) == (&other.expression, &other.zone)
    }
}

impl Eq for Cron {}

#[derive(Serialize, Deserialize)]
struct Written {
    expression: String,
    zone: String,
}

impl Serialize for Cron {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written { expression: self.expression.clone(), zone: self.zone.clone() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Cron {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        Cron::parse(&written.expression, &written.zone).map_err(serde::de::Error::custom)
    }
}

/// A text is no cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{expression:?} in the zone {zone:?} is no cron expression: {problem}")]
pub struct InvalidCron {
    /// The expression, cut to 80 characters.
    pub expression: String,
    /// The zone, cut to 80 characters.
    pub zone: String,
    /// What is wrong with it.
    pub problem: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn next(expression: &str, zone: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(expression, zone).unwrap();
        // 2026-11-30T09:00:00Z, a Monday.
        let mut at = Timestamp::from_micros(1_796_029_200_000_000);
        (0..count)
            .map(|_| {
                at = cron.next_after(at).unwrap();
                at.to_string()[..16].to_owned()
            })
            .collect()
    }

    #[test]
    fn either_day_is_enough_where_both_are_restricted() {
        assert_eq!(next("0 0 1 * 1", "UTC", 3), ["2026-12-01T00:00", "2026-12-07T00:00", "2026-12-14T00:00"]);
    }

    #[test]
    fn names_seven_and_nicknames_are_taken() {
        assert_eq!(next("30 6 * * SUN", "UTC", 1), next("30 6 * * 7", "UTC", 1));
        assert_eq!(next("30 6 * * sun", "UTC", 1), next("30 6 * * 0", "UTC", 1));
        assert_eq!(next("@daily", "UTC", 2), ["2026-12-01T00:00", "2026-12-02T00:00"]);
        assert_eq!(next("*/20 9 * dec Mon", "UTC", 2), ["2026-12-07T09:00", "2026-12-07T09:20"]);
    }

    #[test]
    fn the_zone_decides_and_summer_time_is_known() {
        assert_eq!(next("0 8 * * *", "Asia/Kolkata", 1), ["2026-12-01T02:30"]);
        let berlin = Cron::parse("0 8 * * *", "Europe/Berlin").unwrap();
        // 2027-03-27T12:00:00Z, the day before the clocks go forward.
        let at = berlin.next_after(Timestamp::from_micros(1_806_148_800_000_000)).unwrap();
        assert_eq!(at.to_string(), "2027-03-28T06:00:00.000000Z");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (expression, zone, problem) in [
            ("* * * *", "UTC", "expected five fields"),
            ("61 * * * *", "UTC", "is no cron expression"),
            ("0 0 30 2 *", "UTC", "it never happens"),
            ("0 0 * * *", "Mars/Olympus", "there is no such time zone"),
        ] {
            let error = Cron::parse(expression, zone).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn it_is_stored_as_it_was_written() {
        let cron = Cron::parse("0 8 * * MON", "Europe/Berlin").unwrap();
        let json = serde_json::to_string(&cron).unwrap();
        assert_eq!(serde_json::from_str::<Cron>(&json).unwrap(), cron);
    }
}
