//! The step, phase and range of a point in time, as text.

use gpumem_capture::Seq;
use gpumem_judge::LoopRounds;

use crate::account::When;
use crate::replay::At;
use crate::units::time;

/// The maximum length of a range's name.
const RANGE: usize = 40;

/// A phrase for a requested point in time: `at the peak`, `after event 7`.
pub fn at(moment: At) -> String {
    match moment {
        At::Peak => "at the peak".into(),
        At::End => "at the end".into(),
        At::Failure => "at the failure".into(),
        At::Event(seq) => format!("after event {}", seq.0),
        At::Time(nanos) => format!("at {}", time(nanos)),
        At::Step(step) => format!("at the end of step {step}"),
    }
}

/// The same; the last event of a round of the loop is `at the end of round 7`.
pub fn at_round(moment: At, rounds: Option<&LoopRounds>) -> String {
    match rounds.map(|rounds| (rounds, rounds.last())) {
        Some((rounds, Some(last))) if moment == At::Event(last) => {
            let after = Seq(last.0.saturating_add(1));
            format!("at the end of round {}", rounds.ended_before(after))
        }
        _ => at(moment),
    }
}

/// The text that follows a point in time: `, in backward of step 12, range "layer 3"`; empty if nothing is known.
pub fn when(when: &When) -> String {
    let mut out = match (when.phase, when.step) {
        (Some(phase), Some(step)) => format!(", in {} of step {step}", phase.word()),
        (Some(phase), None) => format!(", in {}", phase.word()),
        (None, Some(step)) => format!(", in step {step}"),
        (None, None) => String::new(),
    };
    if let Some(range) = &when.range {
        let mut name: String = range.chars().take(RANGE + 1).collect();
        if name.chars().count() > RANGE {
            name.pop();
            name.push('…');
        }
        out.push_str(&format!(", range \"{name}\""));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Phase;

    #[test]
    fn only_what_is_known_is_said() {
        let said = |phase, step, range: Option<&str>| {
            let range = range.map(str::to_owned);
            when(&When { step, phase, range })
        };
        assert_eq!(said(None, None, None), "");
        assert_eq!(said(None, Some(3), None), ", in step 3");
        assert_eq!(said(Some(Phase::ZeroGrad), None, None), ", in zero_grad");
        assert_eq!(
            said(Some(Phase::Forward), Some(12), Some("a b")),
            ", in forward of step 12, range \"a b\""
        );
        let long = said(None, None, Some(&"x".repeat(100)));
        assert_eq!(long, format!(", range \"{}…\"", "x".repeat(40)));
    }
}
