"""Changes one line of the tracker's source. The tracker's property tests must fail for each of these faults."""

import faults
import pytest

pytestmark = pytest.mark.slow

# What is changed: the file, the line (or a part that stands there once), and what comes instead.
FAULTS = {
    "a context's end keeps its bytes": ("ends.rs", "self.resize(device, reservation, 0, false, origin);", ""),
    "a failed end is not taken back": ("ends.rs", "if one.bytes != 0 {", "if one.bytes == 1 {"),
    "a page goes with any block on it": ("state/pages.rs", "let is_last = *blocks == 0;", "let is_last = true;"),
    "an array takes no whole pages": ("blocks.rs", "Behind::Own(pages::whole(block.bytes))", "Behind::Own(block.bytes)"),
    "what a failed free gave back is not taken again": ("blocks.rs", "self.blocks.insert(key, block);", "let _ = &block;"),
    "a CANCEL names no FREE": ("state/pending.rs", "self.0.store(number, Ordering::Relaxed);", "let _ = number;"),
    "a handle ends with its last reference": ("handles.rs", "after.references != 0 || after.mappings != 0", "after.references != 0"),
    "what is bound outlives its object": ("handles.rs", "self.unbind_all(handle, origin);", ""),
    "an alias is closed at once": ("aliases.rs", "if opened.times == 0 {", "if true {"),
    "a context takes the blocks of others": ("contexts.rs", "            _ => owner == context,\n        };\n        let gone", "            _ => owner != 0,\n        };\n        let gone"),
    "pools end with any context": ("contexts.rs", "0 => is_last && of == device,", "0 => of == device,"),
    "one pool of two is asked about": ("pools.rs", "let is_only = all.next().is_none() &&", "let is_only ="),
    "an old answer counts": ("pools.rs", "if !self.pools.asked.is_last(questions) {", "if false {"),
    "what pools hold is not compared": ("pools.rs", "bytes != 0 && bytes == self.bytes(*reservation)", "bytes != 0 || bytes == self.bytes(*reservation)"),
    "a destroyed pool is gone at once": ("pools.rs", "            && !self.blocks.any_of_pool(handle)\n", ""),
    "a launch leaves what it frees first": ("state/graph.rs", "if exec.frees_on_launch && is_live(node.ptr) {", "if false && is_live(node.ptr) {"),
    "a reset context is no longer known to be": ("contexts.rs", "known.state = ContextState::Inactive;", "known.state = ContextState::Live;"),
    "what ended is not noted": ("ends.rs", "            residual.has_ended = true;\n        }", "        }"),
    "what is kept of code is nobody's": ("ends.rs", "self.leave(device, owner, context, What::End, origin);", ""),
    "a reading that moved counts": ("readings.rs", "!reading.is_still || ", ""),
    "a stale reading counts": ("readings.rs", " || reading.ticket != self.begin_reading()", ""),
    "the base is never moved": ("readings.rs", "false => residual.base = left,", "false => {}"),
    "evidence outlives its reading": ("readings.rs", "residual.evidence.read();", ""),
    "managed memory is charged": ("readings.rs", "managed if grown > managed => grown - managed,", "managed if grown > managed => grown,"),
    "managed memory consumes evidence": ("readings.rs", "let keeps = reading.managed != 0;", "let keeps = false;"),
    "a share is charged twice": ("readings.rs", "add(share);\n            self.resize(device, one.owner, to, is_estimate || is_split", "add(2 * share);\n            self.resize(device, one.owner, to, is_estimate || is_split"),
    "a stream is charged twice": ("readings.rs", "add(share);\n            self.resize(device, one.owner, to, is_estimate || !is_sure", "add(2 * share);\n            self.resize(device, one.owner, to, is_estimate || !is_sure"),
    "what shrank is not taken off": ("readings.rs", "let less = before.min(most);", "let less = 0 * before.min(most);"),
    "shares of several are called exact": ("readings.rs", "is_estimate |= open.len() > 1;", ""),
    "what a pool that ended is charged is sure": ("readings.rs", "is_split || one.owner.kind == Kind::Pool", "is_split"),
    "what a pool took by estimate is nobody's": ("pools.rs", "self.ended_by_estimate(reservation);", ""),
    "weights of a moved card are called sure": ("readings.rs", "(bytes, !others_moved)", "(bytes, true)"),
    "the card's figure is called exact": ("readings.rs", "let is_estimate = is_hidden || ", "let is_estimate = "),
    "code of other contexts ends": ("ends.rs", "|loaded| wanted(loaded.context)", "|_| true"),
    "late functions are forgotten": ("state/evidence.rs", "matches!(self, Self::Function | Self::Limit)", "matches!(self, Self::Limit)"),
    "what calls tell is a weight": ("calls.rs", "unwrap_or(0)\n        });", "unwrap_or(0) + u64::try_from(grown).unwrap_or(0)\n        });"),
    "two contexts share a library's bytes": ("state/code.rs", "if self.charged.contains_key(&library) {", "if false {"),
    "an estimate is not said": ("tracker.rs", "true => flags.with(EventFlags::ESTIMATED),", "true => flags,"),
}


@pytest.fixture(scope="module")
def crate(tmp_path_factory):
    return faults.Copy("tracker", tmp_path_factory.mktemp("faults"))


def test_without_a_fault_they_pass(crate):
    crate.passes()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(crate, fault):
    crate.finds(*FAULTS[fault])
