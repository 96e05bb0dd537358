//! Bounded captures with valid headers and checksums, and any state.

use super::{Bytes, NONCE, SLOTS, head_of, pages_from, static_header};
use crate::Seq;
use crate::bounded_layout::{BoundedLayout, STATE_HEADER_BYTES, StateHeader};
use crate::header::{RingAt, StaticHeader};

/// A bounded capture from these bytes, as parts of a file with their offsets, and the file's length: u16 the bytes of
/// the state, and the state; u16 the number of the record after it; the pages after it, as in [`super::page_file`].
pub fn state_file(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, u64) {
    let mut bytes = Bytes(bytes);
    let length = bytes.number(2) as usize;
    let state = bytes.take(length);
    let seq = bytes.number(2);
    let least = BoundedLayout::least_file(SLOTS);
    let header = StaticHeader {
        bounded: BoundedLayout::within(least, SLOTS),
        ring_at: RingAt::Nowhere,
        ..static_header()
    };
    let Some(bounded) = header.bounded else {
        return (Vec::new(), 0);
    };
    let start = header.pages_offset();
    let (log, next, _) = pages_from(&mut bytes, NONCE, seq);
    let head = head_of(&header, next, next, bounded.end(start) - start);
    let state_header = StateHeader {
        nonce: NONCE,
        seq,
        events: seq,
        definitions: 0,
        bytes: state.len() as u64,
        crc: crc32fast::hash(state),
    };
    let at = bounded.state_offset(start, 0);
    let log = log.into_iter().take(bounded.log as usize).collect();
    let parts = vec![
        (0, head),
        (at, state_header.encode().to_vec()),
        (at + STATE_HEADER_BYTES as u64, state.to_vec()),
        (bounded.log_offset(start), log),
    ];
    (parts, bounded.end(start))
}

/// The input from which [`state_file`] makes a capture with this state, followed by the pages of a whole capture.
pub fn state_seed(state: &[u8], next: Seq, capture: &[u8]) -> Vec<u8> {
    let mut out = (state.len() as u16).to_le_bytes().to_vec();
    out.extend_from_slice(&state[..usize::from(state.len() as u16)]);
    out.extend_from_slice(&(next.0 as u16).to_le_bytes());
    out.extend(super::page_seed(capture));
    out
}
