//! Sizes, limits of growth and days as the command line and gpumem.toml write them.

use gpumem_analyzer::views::ci::{Day, Growth};

use crate::selection::decimal;

/// Reads `4096`, `1.5 GiB`, `64 MB`, in the same way as the pytest plugin, which reads the same file of budgets.
pub fn size(text: &str) -> Result<u64, String> {
    let number = text
        .trim()
        .trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text.trim()[number.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => 0,
    };
    let fraction = number.split_once('.').map_or("", |(_, fraction)| fraction);
    let is_whole = unit != 1 || fraction.trim_end().bytes().all(|digit| digit == b'0');
    let size = decimal(number.trim_end(), unit).filter(|_| unit > 0 && is_whole);
    size.ok_or_else(|| {
        format!("{text:?} is not a size: write bytes, or a number with KiB, MiB or GiB")
    })
}

/// Reads `2%`, `0.5 %` or a size.
pub fn growth(text: &str) -> Result<Growth, String> {
    let share = text.trim().strip_suffix('%');
    let growth = match share {
        Some(share) => decimal(share.trim_end(), 1_000_000).map(Growth::Percent),
        None => size(text).ok().map(Growth::Bytes),
    };
    growth.ok_or_else(|| format!("{text:?} is not a growth: write 2%, or a size such as 64 MiB"))
}

/// Reads `2026-12-31`.
pub fn day(text: &str) -> Result<Day, String> {
    let date = text.parse::<toml::value::Datetime>().ok();
    let date = date
        .filter(|date| date.time.is_none())
        .and_then(|date| date.date);
    let date = date.ok_or_else(|| format!("{text:?} is not a day: write it as 2026-12-31"))?;
    Ok(Day {
        year: date.year,
        month: date.month,
        day: date.day,
    })
}

/// Reads a day or a time, `2026-12-31T10:00:00Z`: seconds since 1970-01-01 UTC.
pub fn seconds(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is not a date: write 2026-12-31 or 2026-12-31T10:00:00Z");
    let read = text.parse::<toml::value::Datetime>().map_err(|_| wrong())?;
    let date = read.date.ok_or_else(wrong)?;
    let begin = Day {
        year: date.year,
        month: date.month,
        day: date.day,
    }
    .unix();
    let time = read.time.map_or(0, |time| {
        let [hour, minute] = [time.hour, time.minute].map(i64::from);
        hour * 3600 + minute * 60 + time.second.map_or(0, i64::from)
    });
    let ahead = match read.offset {
        Some(toml::value::Offset::Custom { minutes }) => i64::from(minutes) * 60,
        Some(toml::value::Offset::Z) | None => 0,
    };
    Ok(begin + time - ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_pytest_plugin() {
        assert_eq!(size("2.5 GiB"), Ok(5 << 29));
        assert_eq!(size(" 64MB "), Ok(64_000_000));
        assert_eq!(size("4096"), Ok(4096));
        for wrong in ["2 G", "64mib", "1.5 B", "1.5", "1.", "-1", "", "MiB", "1e3"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn growth_is_a_share_or_a_size() {
        assert_eq!(growth("2%"), Ok(Growth::Percent(2_000_000)));
        assert_eq!(growth("0.25 %"), Ok(Growth::Percent(250_000)));
        assert_eq!(growth("64 MiB"), Ok(Growth::Bytes(64 << 20)));
        for wrong in ["%", "-2%", "two", "2 percent"] {
            assert!(growth(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn days_and_times_are_read() {
        assert_eq!(
            day("2026-12-31").map(|day| day.to_string()),
            Ok("2026-12-31".into())
        );
        for wrong in [
            "2026-13-01",
            "2026-02-30",
            "31.12.2026",
            "2026-12-31T10:00:00Z",
            "10:00:00",
        ] {
            assert!(day(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds("1970-01-02"), Ok(86_400));
        assert_eq!(seconds("1970-01-01T02:00:05+02:00"), Ok(5));
        assert!(seconds("yesterday").is_err());
    }
}
