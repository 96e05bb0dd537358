//! The name of a run.

use gpumem_capture::ProcessKey;

use super::options::Options;
use super::words::Words;
use crate::session::Session;

/// The requested name; else the job's name, which all its launchers share; else a name for the process alone.
pub(super) fn name(session: &Session, options: &Options, words: &mut Words<'_>) -> String {
    let fact = |key| {
        session
            .replay
            .names
            .fact(key)
            .filter(|text| !text.is_empty())
    };
    let named = options.run.as_deref().or_else(|| fact(ProcessKey::JOB));
    let name = named.map(str::to_owned).unwrap_or_else(|| {
        let header = &session.header;
        let host = words.name(fact(ProcessKey::HOST).unwrap_or("unknown"));
        format!("{host}-{}-{}", moment(header.started_wall_ns), header.pid)
    });
    plain(&name)
}

/// Replaces all characters except letters, digits, `.`, `_` and `-` by `-`. Readers of a dataset ignore names that
/// begin with `.` or `_`, so these get a `-` in front.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let mut name: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect();
    if name.is_empty() || name.starts_with(['.', '_']) {
        name.insert(0, '-');
    }
    name
}

/// A time in seconds, UTC: `20261125T211500`.
fn moment(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}")
}

/// The date of a day since 1970-01-01. Years begin in March, so that leap days are last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds: u64| moment(seconds * 1_000_000_000);
        assert_eq!(at(0), "19700101T000000");
        // date -u -d @N +%Y%m%dT%H%M%S
        assert_eq!(at(1_795_641_300), "20261125T211500");
        assert_eq!(at(951_782_399), "20000228T235959");
        assert_eq!(at(951_782_400), "20000229T000000");
        assert_eq!(at(4_107_542_399), "21000228T235959");
        assert_eq!(at(4_107_542_400), "21000301T000000");
    }

    #[test]
    fn other_characters_become_dashes() {
        assert_eq!(
            plain("torchrun:run_7 slurm:4711.5"),
            "torchrun-run_7-slurm-4711.5"
        );
        assert_eq!(plain("a/b=c%ü"), "a-b-c--");
        assert_eq!(plain("../x"), "-..-x");
        assert_eq!(plain("_x"), "-_x");
        assert_eq!(plain(""), "-");
    }
}
