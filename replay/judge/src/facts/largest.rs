//! The largest live blocks, and whether the forward that runs made them.

use std::cmp::Reverse;

use gpumem_capture::Seq;
use gpumem_replay::Replay;

use super::{Large, Live, Part, Running, line_of};
use crate::follow::Follow;
use crate::path::Path;
use crate::rounds::Loop;

/// How many blocks a walk lists.
const LARGEST: usize = 256;

/// The largest live blocks.
pub(super) fn largest(
    replay: &Replay,
    follow: &Follow,
    path: &Path,
    parts: &[Part],
    live: &[Live],
) -> Vec<Large> {
    let loops = follow.rounds.loops().iter();
    let around = loops.filter(|of| !of.is_line && of.contains(path));
    let innermost = around.max_by_key(|of| (!of.is_one_call(), of.depth, of.first));
    let began = innermost.map(|of| of.newest().map_or(Seq(0), |start| start.seq));
    let running = |of: &Live| {
        let made_by = follow.rounds.known_path(replay.stacks(of.block.key).py);
        let is_in_forward = made_by.is_some_and(Path::in_forward);
        let is_same = made_by.is_some_and(|of| of.site() == path.site());
        if !is_in_forward || !(is_same || path.is_backward || !path.in_forward()) {
            return Running::No;
        }
        match began {
            Some(seq) if of.block.seq >= seq => Running::Yes,
            Some(_) if innermost.is_some_and(Loop::is_one_call) => Running::Perhaps,
            None if path.is_backward || path.in_forward() => Running::Yes,
            _ => Running::No,
        }
    };
    let mut blocks: Vec<&Live> = live.iter().collect();
    let order = |of: &&Live| (Reverse(of.block.bytes), of.address);
    // There may be a million of them.
    if blocks.len() > LARGEST {
        blocks.select_nth_unstable_by_key(LARGEST, order);
        blocks.truncate(LARGEST);
    }
    blocks.sort_unstable_by_key(order);
    let with_part = |of: &&Live| {
        let owner = line_of(replay, replay.stacks(of.block.key), follow.level);
        let is_of = |part: &Part| part.category == of.category && part.owner == owner;
        Some(Large {
            address: of.address,
            bytes: of.block.bytes,
            seq: of.block.seq,
            running: running(of),
            is_of_round: began.is_none_or(|began| of.block.seq >= began),
            part: parts.iter().position(is_of)?,
            stack: replay.stacks(of.block.key).py,
        })
    };
    blocks.iter().filter_map(with_part).collect()
}
