//! Rules for changes of peaks: limits of growth, budgets and allowances.

use std::borrow::Cow;

use gpumem_capture::Level;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::views::json::by_name;

/// A limit of growth. In JSON: `{"bytes": n}` or `{"percent": x}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// A number of bytes.
    Bytes(u64),
    /// A share of the base's peak, in millionths of a percent.
    Percent(u64),
}

/// 100 % in millionths of a percent.
const WHOLE: u128 = 100_000_000;

impl Growth {
    /// The limit in bytes for a base's peak of `base` bytes.
    pub fn of(self, base: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(millionths) => {
                let bytes = u128::from(base) * u128::from(millionths) / WHOLE;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Serialize for Growth {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(bytes) => to.collect_map([("bytes", *bytes)]),
            Self::Percent(millionths) => to.collect_map([("percent", *millionths as f64 / 1e6)]),
        }
    }
}

impl JsonSchema for Growth {
    fn schema_name() -> Cow<'static, str> {
        "Growth".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let of = |key: &str, kind: &str| json!({"type": "object", "properties": {key: {"type": kind}}, "required": [key]});
        json_schema!({"oneOf": [of("bytes", "integer"), of("percent", "number")]})
    }
}

/// A day of the calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    /// Year.
    pub year: u16,
    /// Month, from 1 on.
    pub month: u8,
    /// Day of the month, from 1 on.
    pub day: u8,
}

impl Day {
    /// The day of a time: seconds since 1970-01-01.
    pub fn of_unix(seconds: i64) -> Self {
        // Days are counted from 0000-03-01, so that a leap day is the last day of its year.
        let days = seconds.div_euclid(86_400) + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 {
            (month + 3, 0)
        } else {
            (month - 9, 1)
        };
        Self {
            year: u16::try_from(year + era * 400 + next).unwrap_or(0),
            month: month as u8,
            day: day as u8,
        }
    }

    /// Seconds from 1970-01-01 to the start of the day.
    pub fn unix(self) -> i64 {
        let (month, day) = (i64::from(self.month), i64::from(self.day));
        let year = i64::from(self.year) - i64::from(month <= 2);
        let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        (days - 719_468) * 86_400
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl JsonSchema for Day {
    fn schema_name() -> Cow<'static, str> {
        "Day".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date"})
    }
}

/// The limits of one workload, from gpumem.toml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Budget {
    /// Name of the workload, or the id of a test of pytest.
    pub workload: String,
    /// The most bytes that the workload's peak may have on each device; `None`: no limit.
    pub peak: Option<u64>,
    /// The level whose peak is limited: `tensor`, `driver`, `physical` or `host`. `None`: the level that is compared.
    #[serde(serialize_with = "level_if_any")]
    #[schemars(with = "Option<String>")]
    pub level: Option<Level>,
    /// The most by which the peak on a device may grow: `{"bytes": n}` or `{"percent": x}` of the base's peak. It
    /// overrides `fail_over`. `None`: `fail_over` applies.
    pub grow: Option<Growth>,
}

/// An expected growth of a workload, from gpumem.toml. It raises the limit of growth until its last day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Allowance {
    /// Name of the workload.
    pub workload: String,
    /// The most by which the peak on a device may grow: `{"bytes": n}` or `{"percent": x}` of the base's peak.
    pub grow: Growth,
    /// The last day on which the allowance applies, in UTC: `YYYY-MM-DD`.
    pub until: Day,
    /// The reason in gpumem.toml; `None`: it has no reason.
    pub reason: Option<String>,
}

/// The rules by which workloads are checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rules {
    /// The most by which a peak on a device may grow: `{"bytes": n}` or `{"percent": x}` of the base's peak. `None`:
    /// no limit for workloads whose budget does not set one.
    pub fail_over: Option<Growth>,
    /// The budgets in gpumem.toml, those of tests included.
    pub budgets: Vec<Budget>,
    /// The allowances in gpumem.toml, expired ones included.
    pub allowances: Vec<Allowance>,
    /// The day for which allowances are checked, in UTC: `YYYY-MM-DD`.
    pub today: Day,
    /// Whether the head must have each workload that has a budget.
    #[serde(skip)]
    pub are_all_expected: bool,
}

fn level_if_any<S: Serializer>(level: &Option<Level>, to: S) -> Result<S::Ok, S::Error> {
    match level {
        Some(level) => by_name(level, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_exact_to_the_byte() {
        let two = Growth::Percent(2_000_000);
        assert_eq!(
            [two.of(0), two.of(99), two.of(100), two.of(1 << 30)],
            [0, 1, 2, 21_474_836]
        );
        assert_eq!(Growth::Percent(u64::MAX).of(u64::MAX), u64::MAX);
        assert_eq!(Growth::Bytes(7).of(0), 7);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 951_782_400),
            ("2026-12-31", 1_798_675_200),
            ("2100-03-01", 4_107_542_400),
        ] {
            assert_eq!(Day::of_unix(seconds).to_string(), text);
            let day = Day::of_unix(seconds);
            assert_eq!(Day::of_unix(day.unix()), day, "{text}");
        }
        assert!(Day::of_unix(0) < Day::of_unix(86_400));
    }
}
