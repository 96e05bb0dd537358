//! The history of spans, which are not blocks, in the data of a page: columns of numbers.
//!
//! The columns, one after the other (`u`: unsigned, `s`: signed):
//!
//! | of | column | |
//! |---|---|---|
//! | events | event | u: by how much it is greater than the one before |
//! | | time | s: ns, likewise |
//! | spans | kind | u: see [`SpanKind`], its place |
//! | | device | u: ordinal; 255: none |
//! | | address | s: by how much it is greater than that of the span before |
//! | | bytes | u |
//! | | handle | s: likewise |
//! | | began | u: number of the event, by how much it is greater than the span before |
//! | | ended | u: 0: it has not; else by how many events later, and 1 more than that |

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{Nanos, Seq};
use serde::{Serialize, Serializer};

use super::input::PageLimits;
use crate::packed::{number, signed, text};
use crate::views::{PastSpan, PastSpans};

/// The history of mappings, address space, reservations, nodes and aliases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageSpans {
    /// How many are in the page.
    pub spans: usize,
    /// Events at which one of these began or ended.
    pub events: usize,
    /// Whether no span is omitted.
    pub whole: bool,
    /// The stretches without omitted spans: their first and their last event.
    pub stretches: Vec<[u64; 2]>,
    /// Omitted nodes of graphs.
    pub nodes_left_out: u64,
    /// The columns.
    #[serde(serialize_with = "as_text")]
    pub columns: Vec<u8>,
}

fn as_text<S: Serializer>(columns: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let text = text(columns).map_err(serde::ser::Error::custom)?;
    text.serialize(serializer)
}

impl PageSpans {
    pub(super) fn of(from: &PastSpans, limits: PageLimits) -> Self {
        let is_cut = from.spans.len() > limits.blocks;
        let mut spans: Vec<&PastSpan> = from.spans.iter().collect();
        if is_cut {
            spans.sort_by_key(|span| Reverse(span.bytes));
            spans.truncate(limits.blocks);
            spans.sort_by_key(|span| span.made.0);
        }
        let all = spans.iter().flat_map(|span| [Some(span.made), span.ended]);
        let events: BTreeMap<Seq, Nanos> = all.flatten().collect();
        let events: Vec<(Seq, Nanos)> = events.into_iter().collect();
        let whole = if is_cut { &[][..] } else { &from.whole };
        Self {
            spans: spans.len(),
            events: events.len(),
            whole: from.is_all && !is_cut,
            stretches: whole.iter().map(|of| [of.from.0, of.to.0]).collect(),
            nodes_left_out: from.nodes_left_out,
            columns: columns(&spans, &events),
        }
    }
}

fn columns(spans: &[&PastSpan], events: &[(Seq, Nanos)]) -> Vec<u8> {
    let mut out = Vec::new();
    let at = |seq: Seq| events.partition_point(|(of, _)| *of < seq) as u64;
    let mut before = 0;
    for (seq, _) in events {
        number(seq.0 - before, &mut out);
        before = seq.0;
    }
    differences(events.iter().map(|(_, time)| time.0), &mut out);
    for span in spans {
        number(span.kind as u64, &mut out);
    }
    for span in spans {
        number(u64::from(span.device.0), &mut out);
    }
    differences(spans.iter().map(|span| span.address), &mut out);
    for span in spans {
        number(span.bytes, &mut out);
    }
    differences(spans.iter().map(|span| span.handle), &mut out);
    let mut before = 0;
    for span in spans {
        let made = at(span.made.0);
        number(made - before, &mut out);
        before = made;
    }
    for span in spans {
        let later = |ended| at(ended).saturating_sub(at(span.made.0)) + 1;
        number(span.ended.map_or(0, |(ended, _)| later(ended)), &mut out);
    }
    out
}

/// The difference of each number from the one before.
fn differences(numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    let mut before = 0_u64;
    for of in numbers {
        signed(of.wrapping_sub(before) as i64, out);
        before = of;
    }
}
