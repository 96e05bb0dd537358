//! Points in time as arguments: `peak`, `end`, `oom`, an event's number, `1.5s`, `step=3`.

use gpumem_capture::{Nanos, Seq};

use crate::replay::At;

/// Parses a point in time.
///
/// # Errors
/// One line with the expected forms.
pub fn parse(text: &str) -> Result<At, String> {
    const EXPECTED: &str =
        "expected peak, end, oom, the number of an event, a time (1.5s, 00:01.500) or step=N";
    match text {
        "peak" => return Ok(At::Peak),
        "end" => return Ok(At::End),
        "oom" => return Ok(At::Failure),
        _ => {}
    }
    if let Some(step) = text.strip_prefix("step=") {
        let step = step.parse().ok().filter(|step| *step > 0);
        return step.map(At::Step).ok_or_else(|| EXPECTED.into());
    }
    let event = text.replace(',', "").parse().ok();
    let event = event.map(|seq| At::Event(Seq(seq)));
    event
        .or_else(|| time(text).map(At::Time))
        .ok_or_else(|| EXPECTED.into())
}

/// Parses `1.5s`, `200ms`, `30us`, `7ns`, `2m`, `01:02.5` or `1:02:03.214`: the time since the capture was opened.
#[must_use]
pub fn time(text: &str) -> Option<Nanos> {
    let nanos = if text.contains(':') {
        let mut fields = text.rsplit(':');
        let mut nanos = decimal(fields.next()?, 1_000_000_000)?;
        for unit in [60, 3600] {
            let Some(field) = fields.next() else { break };
            let whole: u64 = field.parse().ok()?;
            nanos = nanos.checked_add(whole.checked_mul(unit * 1_000_000_000)?)?;
        }
        fields.next().is_none().then_some(nanos)?
    } else {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match text.get(number.len()..)? {
            "h" => 3_600_000_000_000,
            "m" | "min" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" => 1000,
            "ns" => 1,
            _ => return None,
        };
        decimal(number, unit)?
    };
    Some(Nanos(nanos))
}

/// Parses `12` or `1.25` of a unit. Excess digits are truncated.
pub fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 18 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let scale = 10_u128.checked_pow(part.len() as u32)?;
    let part = part.parse::<u128>().ok()?.checked_mul(unit.into())? / scale;
    whole.checked_add(part as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_events_times_and_steps() {
        let seconds = |seconds: f64| Ok(At::Time(Nanos((seconds * 1e9) as u64)));
        assert_eq!(parse("21,334"), Ok(At::Event(Seq(21_334))));
        assert_eq!(parse("step=12"), Ok(At::Step(12)));
        assert_eq!(parse("1.5s"), seconds(1.5));
        assert_eq!(parse("250ms"), seconds(0.25));
        assert_eq!(parse("00:03.214"), seconds(3.214));
        assert_eq!(parse("1:02:03"), seconds(3723.0));
        for wrong in ["step=0", "step=x", "1.5", "s", "-1s", "1:2:3:4", "nowhen"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
