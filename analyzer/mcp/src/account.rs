//! The accuracy facts that each answer has.

use gpumem_analyzer::account::{Ending, place};
use gpumem_analyzer::ask::Pivot;
use gpumem_analyzer::session::Session;
use gpumem_analyzer::unanswered::lacks_older;
use gpumem_capture::{DeviceOrdinal, Level};
use serde_json::{Map, Value, json};

use crate::fit::text_of;

/// Lines about missing records in each answer; summary has all of them.
const MISSING: usize = 2;
/// The most characters per line.
const CHARACTERS: usize = 240;

/// Whether reading the capture again gives the same result.
pub fn is_settled(session: &Session) -> bool {
    session.account.ending != Ending::Running
}

/// The facts: whether figures are exact, and what is missing if they are not.
pub fn facts(session: &Session) -> Map<String, Value> {
    let account = &session.account;
    let missing = account.missing.iter().take(MISSING);
    let missing: Vec<_> = missing.map(|line| text_of(line, CHARACTERS)).collect();
    let mut facts = Map::new();
    facts.insert("exact".into(), account.is_exact().into());
    facts.insert("lost_events".into(), account.events_lost.into());
    facts.insert("ended".into(), account.ending.word().into());
    if !missing.is_empty() {
        let more = account.missing.len() - missing.len();
        facts.insert("partial".into(), missing.into());
        facts.insert("partial_more".into(), more.into());
    }
    if let Some(sampled) = account.sampled() {
        facts.insert("sampled".into(), sampled.into());
    }
    if let Some(imported) = &account.imported {
        facts.insert("imported".into(), text_of(imported, CHARACTERS).into());
    }
    if let Some(replayed) = &account.replayed {
        facts.insert(
            "replayed".into(),
            text_of(&replayed.title(), CHARACTERS).into(),
        );
    }
    if let Some(restored) = session.replay.restored {
        facts.insert("bounded_from_event".into(), restored.from.0.into());
    }
    facts
}

/// What a bounded capture lacks of an answer.
pub fn lacking(session: &Session, question: &Pivot) -> Option<String> {
    lacks_older(session, question.lacks_older()?)
}

/// Levels whose rows do not add up to the level's own figure: (device, sum, figure).
pub type Mismatches = [(DeviceOrdinal, u64, u64)];

/// The same facts, and each level whose rows do not add up to its own figure.
pub fn facts_of_rows(session: &Session, levels: &[(Level, &Mismatches)]) -> Map<String, Value> {
    let mut facts = facts(session);
    let mut said: Vec<Value> = Vec::new();
    for (level, mismatches) in levels {
        said.extend(mismatches.iter().map(|(device, sum, figure)| {
            let device = place(*device);
            json!(format!(
                "{device}: the rows sum to {sum} bytes, the {level} level has {figure}"
            ))
        }));
    }
    if !said.is_empty() {
        facts.insert("exact".into(), false.into());
        facts.insert("mismatches".into(), said.into());
    }
    facts
}
