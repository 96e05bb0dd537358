//! Axes: the positions of ticks and their labels.

use crate::views::TimeAxis;

/// Ticks of a byte axis: at distances of a power of two, at most six above 0.
pub(super) fn byte_ticks(most: u64) -> Vec<u64> {
    let mut step: u64 = 1;
    while most / step > 6 && step < 1 << 62 {
        step *= 2;
    }
    (0..=most / step).map(|tick| tick * step).collect()
}

const SECOND: u64 = 1_000_000_000;
/// Steps of whole seconds.
const LONG: [u64; 13] = [
    1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400,
];

/// Ticks of a time axis between two times, about eight at most, and their distance.
pub(in crate::render) fn time_ticks(from: u64, to: u64) -> (Vec<u64>, u64) {
    let length = to.saturating_sub(from).max(1);
    let fits = |step: u64| length / step <= 8;
    let short = (0..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let long = LONG.iter().map(|seconds| seconds * SECOND);
    let step = short
        .chain(long)
        .find(|step| fits(*step))
        .unwrap_or_else(|| {
            let day = 86_400 * SECOND;
            length.div_ceil(8).div_ceil(day).saturating_mul(day)
        });
    let first = from.div_ceil(step).saturating_mul(step);
    let mut ticks = Vec::new();
    let mut tick = first;
    while tick <= to && tick >= first && ticks.len() < 16 {
        ticks.push(tick);
        let Some(next) = tick.checked_add(step) else {
            break;
        };
        tick = next;
    }
    (ticks, step)
}

/// The label of a tick, as exact as the distance requires.
pub(in crate::render) fn tick_text(time: u64, step: u64) -> String {
    let seconds = time / SECOND;
    if step >= 10 * SECOND {
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        return match hours {
            0 => format!("{minutes}:{seconds:02}"),
            _ => format!("{hours}:{minutes:02}:{seconds:02}"),
        };
    }
    let decimals = (0..9)
        .find(|decimals| step.is_multiple_of(10_u64.pow(9 - decimals)))
        .unwrap_or(9);
    if decimals == 0 {
        return format!("{seconds} s");
    }
    let part = time % SECOND / 10_u64.pow(9 - decimals);
    let width = decimals as usize;
    format!("{seconds}.{part:0width$} s")
}

/// Ticks of an axis with folds, and their distance outside folds.
pub(super) fn axis_ticks(axis: &TimeAxis) -> (Vec<u64>, u64) {
    let (_, step) = time_ticks(0, axis.unfolded());
    let pieces = axis.pieces().flat_map(|[from, to]| {
        let first = from.div_ceil(step).saturating_mul(step);
        let ticks = std::iter::successors(Some(first), move |tick| tick.checked_add(step));
        ticks
            .take_while(move |tick| *tick <= to && *tick >= first)
            .take(16)
    });
    let mut ticks: Vec<u64> = pieces.collect();
    ticks.dedup();
    (ticks, step)
}

/// A duration such as `2.92 s`, `519 ms` or `1:02:03`.
pub(super) fn length_text(ns: u64) -> String {
    let seconds = ns / SECOND;
    if seconds >= 60 {
        return tick_text(ns, 60 * SECOND);
    }
    for (unit, word) in [(SECOND, "s"), (1_000_000, "ms"), (1000, "µs")] {
        if ns >= unit {
            let hundredths = ns / (unit / 100).max(1);
            return match hundredths {
                0..1000 => format!("{}.{:02} {word}", hundredths / 100, hundredths % 100),
                1000..10_000 => format!("{}.{} {word}", hundredths / 100, hundredths / 10 % 10),
                _ => format!("{} {word}", hundredths / 100),
            };
        }
    }
    format!("{ns} ns")
}

/// The distance between marked steps so that there are at most ten.
pub(super) fn step_stride(steps: u64) -> u64 {
    let mut power: u64 = 1;
    loop {
        for digit in [1, 2, 5] {
            let stride = power.saturating_mul(digit);
            if steps / stride <= 10 {
                return stride;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round() {
        assert_eq!(byte_ticks(0), [0]);
        assert_eq!(byte_ticks(7), [0, 2, 4, 6]);
        assert_eq!(byte_ticks(202 << 20).len(), 7);
        assert!(byte_ticks(u64::MAX).len() <= 8);
        let (ticks, step) = time_ticks(3_201_000_000, 3_218_000_000);
        assert_eq!((ticks.len(), step), (9, 2_000_000));
        assert_eq!(tick_text(ticks[0], step), "3.202 s");
        assert!(time_ticks(0, u64::MAX).0.len() <= 16);
        assert_eq!(time_ticks(7, 7).0, [7]);
    }

    #[test]
    fn times_are_as_exact_as_their_step() {
        assert_eq!(tick_text(3 * SECOND, SECOND), "3 s");
        assert_eq!(tick_text(3 * SECOND + 250_000_000, 50_000_000), "3.25 s");
        assert_eq!(tick_text(3723 * SECOND, 60 * SECOND), "1:02:03");
        assert_eq!(tick_text(90 * SECOND, 10 * SECOND), "1:30");
    }

    #[test]
    fn folds_have_no_ticks() {
        let axis = TimeAxis::new(0, 3_100 * 1_000_000, &[[50_000_000, 3_000 * 1_000_000]]);
        let (ticks, step) = axis_ticks(&axis);
        assert_eq!(step, 20_000_000);
        let expected = [0, 20, 40, 3000, 3020, 3040, 3060, 3080, 3100];
        assert_eq!(ticks, expected.map(|tick| tick * 1_000_000));
        let ends = TimeAxis::new(u64::MAX - 5, u64::MAX, &[]);
        assert!(axis_ticks(&ends).0.len() <= 16);
    }

    #[test]
    fn lengths_have_three_digits() {
        let of = [7, 1500, 18_290_000, 519_000_000, 2_922_714_000, 90 * SECOND];
        assert_eq!(
            of.map(length_text),
            ["7 ns", "1.50 µs", "18.2 ms", "519 ms", "2.92 s", "1:30"]
        );
    }

    #[test]
    fn steps_are_marked_ten_times_at_most() {
        assert_eq!(
            [0, 10, 11, 20, 51, 1000].map(step_stride),
            [1, 1, 2, 2, 5, 100]
        );
        assert!(u64::MAX / step_stride(u64::MAX) <= 10);
    }
}
