//! Words for amounts, steps and ranks.

use std::cmp::Reverse;

use crate::account::many;
use crate::ranks::{Clock, Since};
use crate::render::{bytes, count, duration, signed};

/// How many clocks are listed.
const CLOCKS: usize = 4;
/// How many runs of ranks are listed.
const TOLD: usize = 8;

pub(super) fn since(since: Option<Since>) -> String {
    match since {
        None => String::new(),
        Some(of) if of.last_step == 1 => ", from the first step".to_owned(),
        Some(of) if of.is_exact() => format!(", since step {}", count(of.first_step)),
        // Steps before it are not known, or were merged with it.
        Some(of) if of.first_step == 1 => {
            format!(", since step {} or earlier", count(of.last_step))
        }
        Some(of) => format!(
            ", since step {} to {}",
            count(of.first_step),
            count(of.last_step)
        ),
    }
}

/// Machines with wrong clocks, the largest differences first.
pub(super) fn clock_lines(clocks: &[Clock]) -> Vec<String> {
    let mut clocks: Vec<&Clock> = clocks.iter().collect();
    clocks.sort_by_key(|clock| Reverse(clock.ahead_ns.unsigned_abs()));
    let told = clocks.iter().take(CLOCKS).map(|clock| {
        let by = duration(clock.ahead_ns.unsigned_abs());
        let way = if clock.ahead_ns > 0 { "ahead of" } else { "behind" };
        let steps = many(clock.steps as u64, "step", "steps");
        format!(
            "The clock of {} is {by} {way} its peers', measured at the ends of {steps}. Its times are corrected.",
            clock.host
        )
    });
    let more = clocks.len().saturating_sub(CLOCKS) as u64;
    let more = (more > 0).then(|| {
        let machines = many(more, "more machine", "more machines");
        format!("The clocks of {machines} differ by less, and are also corrected.")
    });
    told.chain(more).collect()
}

pub(super) fn plus(value: i64) -> String {
    match value {
        1.. => format!("+{}", bytes(value.unsigned_abs())),
        _ => signed(value),
    }
}

/// A list of ranks such as `rank 3` or `ranks 0 to 7, 12`.
pub(super) fn ranges(ranks: &[u64]) -> String {
    let runs: Vec<String> = ranks
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [first, .., last] if run.len() > 2 => format!("{first} to {last}"),
            _ => run
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        })
        .collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    let more = match runs.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = runs.get(..TOLD.min(runs.len())).unwrap_or(&[]);
    format!("{word} {}{more}", shown.join(", "))
}

pub(super) fn ranges_have(ranks: &[u64]) -> String {
    let has = if ranks.len() == 1 { "has" } else { "have" };
    format!("{} {has}", ranges(ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_as_exactly_as_they_are_known() {
        let told = |first_step, last_step| {
            since(Some(Since {
                first_step,
                last_step,
            }))
        };
        assert_eq!(told(1, 1), ", from the first step");
        assert_eq!(told(1041, 1041), ", since step 1,041");
        assert_eq!(told(1025, 1040), ", since step 1,025 to 1,040");
        assert_eq!(told(1, 1040), ", since step 1,040 or earlier");
        assert_eq!(since(None), "");
    }
}
