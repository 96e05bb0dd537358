//! Text of numbers for people. JSON has plain integers instead.

use gpumem_capture::Nanos;

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Bytes with three significant digits in steps of 2^10: `0 B`, `1023 B`, `1.22 GiB`, `540 MiB`.
pub fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    loop {
        let decimals = [2, 1, 0]
            .into_iter()
            .find(|decimals| rounded(value, *decimals) < limit(*decimals));
        match decimals {
            Some(decimals) => return format!("{value:.decimals$} {}", UNITS[unit]),
            None => {
                value /= 1024.0;
                unit += 1;
            }
        }
    }
}

/// Bytes that may be negative: `-540 MiB`.
pub fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", bytes(value.unsigned_abs()))
}

/// From one number of bytes to another: `1.00 MiB` if both have the same text, `8.00 to 8.20 MiB`.
pub fn range(least: i64, most: i64) -> String {
    let (least, most) = (signed(least), signed(most));
    let unit = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    match least.rsplit_once(' ') {
        _ if least == most => most,
        Some((number, of)) if unit(&most).as_deref() == Some(of) => format!("{number} to {most}"),
        _ => format!("{least} to {most}"),
    }
}

fn rounded(value: f64, decimals: usize) -> f64 {
    let scale = 10_f64.powi(decimals as i32);
    (value * scale).round() / scale
}

fn limit(decimals: usize) -> f64 {
    match decimals {
        2 => 10.0,
        1 => 100.0,
        _ => 1024.0,
    }
}

/// Bytes in MiB with one decimal, as gpu_mem_track prints them.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A count with thousands separators: `48,211`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How long something took, with three significant digits: `840 ns`, `3.21 µs`, `12.4 ms`, `1.05 s`.
pub fn duration(ns: u64) -> String {
    if ns < 1000 {
        return format!("{ns} ns");
    }
    let mut value = ns as f64 / 1000.0;
    for unit in ["µs", "ms"] {
        for (decimals, limit) in [(2, 10.0), (1, 100.0), (0, 1000.0)] {
            if rounded(value, decimals) < limit {
                return format!("{value:.decimals$} {unit}");
            }
        }
        value /= 1000.0;
    }
    let decimals = match value {
        _ if rounded(value, 2) < 10.0 => 2,
        _ if rounded(value, 1) < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} s")
}

/// A time in the run: `00:03.214`, `1:02:03.214`.
pub fn time(nanos: Nanos) -> String {
    let millis = nanos.0 / 1_000_000;
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    let (seconds, millis) = (millis / 1000 % 60, millis % 1000);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}.{millis:03}")
    } else {
        format!("{minutes:02}:{seconds:02}.{millis:03}")
    }
}

/// A number of things: `1 block`, `2 blocks`.
pub fn many(number: u64, one: &str, more: &str) -> String {
    let word = if number == 1 { one } else { more };
    format!("{} {word}", count(number))
}

/// A part of a whole: `31 %`, to the nearest percent. A nonzero part is never `0 %`, and a part less than the whole is
/// never `100 %`: `<1 %`, `>99 %`.
pub fn percent(part: u64, whole: u64) -> String {
    let (part, whole) = (u128::from(part), u128::from(whole));
    let nearest = (part * 100 + whole / 2).checked_div(whole).unwrap_or(0);
    match nearest {
        0 if part > 0 => "<1 %".into(),
        100 if part < whole => ">99 %".into(),
        nearest => format!("{nearest} %"),
    }
}

/// A bar of `part` in `whole`, at most `width` characters, in eighths.
pub fn bar(part: u64, whole: u64, width: usize) -> String {
    if whole == 0 {
        return String::new();
    }
    let eighths = (u128::from(part) * width as u128 * 8 / u128::from(whole)) as usize;
    let eighths = eighths.min(width * 8);
    let mut out = "█".repeat(eighths / 8);
    if let Some(last) = ["▏", "▎", "▍", "▌", "▋", "▊", "▉"].get((eighths % 8).wrapping_sub(1))
    {
        out.push_str(last);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_and_never_round_into_the_next_unit() {
        for (input, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10_239, "10.0 KiB"),
            (102_399, "100 KiB"),
            (1_048_575, "1.00 MiB"),
            (566_231_040, "540 MiB"),
            (1_309_965_025, "1.22 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(input), expected);
        }
    }

    #[test]
    fn percents_are_the_nearest_and_never_hide_a_part() {
        assert_eq!(percent(1, 3), "33 %");
        assert_eq!(percent(2, 3), "67 %");
        assert_eq!(percent(1, 8), "13 %", "half is rounded up");
        assert_eq!(percent(u64::MAX / 2, u64::MAX), "50 %");
        assert_eq!((percent(0, 7), percent(0, 0)), ("0 %".into(), "0 %".into()));
        assert_eq!(
            (percent(1, 1000), percent(999, 1000)),
            ("<1 %".into(), ">99 %".into())
        );
        assert_eq!(percent(7, 7), "100 %");
    }

    #[test]
    fn durations_have_three_digits() {
        let shown = [0, 999, 1000, 3_214, 99_960, 999_499, 999_500, 12_449_000].map(duration);
        let expected = [
            "0 ns", "999 ns", "1.00 µs", "3.21 µs", "100 µs", "999 µs", "1.00 ms", "12.4 ms",
        ];
        assert_eq!(shown, expected);
        assert_eq!(
            [1_050_000_000, 61_000_000_000, 3_600_000_000_000].map(duration),
            ["1.05 s", "61.0 s", "3600 s"]
        );
    }

    #[test]
    fn counts_and_times_read_well() {
        assert_eq!(
            [count(0), count(999), count(48_211)],
            ["0", "999", "48,211"]
        );
        assert_eq!(time(Nanos(3_214_999_999)), "00:03.214");
        assert_eq!(time(Nanos(3_723_004_000_000)), "1:02:03.004");
        assert_eq!(mebibytes(952_735_744), "908.6 MiB");
    }

    #[test]
    fn negative_bytes_keep_their_sign() {
        assert_eq!(signed(-(540 << 20)), "-540 MiB");
        assert_eq!(signed(i64::MIN), "-8.00 EiB");
        assert_eq!([signed(0), signed(7)], ["0 B", "7 B"]);
    }

    #[test]
    fn a_range_names_its_unit_once() {
        let ranges = [
            (8, 9),
            (8 << 20, 8 << 20),
            (8 << 20, (8 << 20) + 9),
            (8, 8 << 20),
            (-8, 8),
        ];
        assert_eq!(
            ranges.map(|(least, most)| range(least, most)),
            [
                "8 to 9 B",
                "8.00 MiB",
                "8.00 MiB",
                "8 B to 8.00 MiB",
                "-8 to 8 B"
            ]
        );
    }

    #[test]
    fn a_bar_is_full_at_the_whole_and_never_longer() {
        assert_eq!(bar(4, 4, 3), "███");
        assert_eq!(bar(9, 4, 3), "███");
        assert_eq!(bar(1, 16, 2), "▏");
        assert_eq!(bar(0, 4, 3), "");
        assert_eq!(bar(1, 0, 3), "");
    }
}
