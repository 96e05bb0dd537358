//! Stream-ordered memory: pools, and memory that graphs own.

use std::ffi::c_void;

use serde_json::json;

use crate::card::{Card, Facts};
use crate::library::call;

const MIB: usize = 1 << 20;

/// Runs all checks of this file.
pub fn check(card: &Card, facts: &mut Facts) {
    let mut stream = core::ptr::null_mut();
    if call!(card.cuda, "cuStreamCreate"(*mut *mut c_void: &mut stream, u32: 1)) != 0 {
        return;
    }
    let mut pool = core::ptr::null_mut();
    if call!(card.cuda, "cuDeviceGetDefaultMemPool"(*mut *mut c_void: &mut pool, i32: 0)) == 0 {
        pools(&Pool { card, pool, stream }, facts);
    }
    graphs(card, stream, facts);
    call!(card.cuda, "cuStreamDestroy_v2"(*mut c_void: stream));
}

struct Pool<'a> {
    card: &'a Card,
    pool: *mut c_void,
    stream: *mut c_void,
}

impl Pool<'_> {
    fn attribute(&self, which: u32) -> u64 {
        let mut value = u64::MAX;
        call!(self.card.cuda, "cuMemPoolGetAttribute"(
            *mut c_void: self.pool, u32: which, *mut u64: &mut value
        ));
        value
    }

    fn set(&self, which: u32, mut value: u64) -> i32 {
        call!(self.card.cuda, "cuMemPoolSetAttribute"(
            *mut c_void: self.pool, u32: which, *mut u64: &mut value
        ))
    }

    fn alloc(&self, bytes: usize) -> u64 {
        let mut pointer = 0u64;
        call!(self.card.cuda, "cuMemAllocAsync"(
            *mut u64: &mut pointer, usize: bytes, *mut c_void: self.stream
        ));
        pointer
    }

    fn free(&self, pointer: u64) -> i32 {
        call!(self.card.cuda, "cuMemFreeAsync"(u64: pointer, *mut c_void: self.stream))
    }

    fn wait(&self) -> i32 {
        call!(self.card.cuda, "cuStreamSynchronize"(*mut c_void: self.stream))
    }

    /// Reserved and used bytes, current and peak, and the change of the card's figure since `base`.
    fn state(&self, base: i64) -> serde_json::Value {
        json!({
            "reserved": self.attribute(5), "reserved_high": self.attribute(6),
            "used": self.attribute(7), "used_high": self.attribute(8),
            "card": self.card.used() - base,
        })
    }
}

fn pools(pool: &Pool<'_>, facts: &mut Facts) {
    facts.note("pool.default_threshold", pool.attribute(4));
    let base = pool.card.used();
    facts.note("pool.at_first", pool.state(base));
    for bytes in [
        1,
        512,
        MIB,
        2 * MIB + 1,
        31 * MIB,
        32 * MIB,
        33 * MIB,
        100 * MIB,
    ] {
        let pointer = pool.alloc(bytes);
        pool.wait();
        let held = pool.state(base);
        pool.free(pointer);
        let freed = pool.state(base);
        pool.wait();
        facts.note(
            format!("pool.{bytes}"),
            json!({ "aligned_512": pointer.is_multiple_of(512), "held": held, "freed": freed, "waited": pool.state(base) }),
        );
        pool.set(6, 0);
        pool.set(8, 0);
    }
    let pair = [pool.alloc(MIB), pool.alloc(MIB)];
    pool.wait();
    facts.note("pool.two_of_1MiB", pool.state(base));
    pool.free(pair[0]);
    pool.wait();
    facts.note("pool.one_of_two", pool.state(base));
    let code = call!(pool.card.cuda, "cuMemFree_v2"(u64: pair[1]));
    facts.note("pool.freed_by_cuMemFree", json!([code, pool.state(base)]));
    pool.card.synchronize();
    facts.note("pool.after_context_wait", pool.state(base));

    facts.note("pool.keep_code", pool.set(4, u64::MAX));
    let pointer = pool.alloc(50 * MIB);
    pool.free(pointer);
    pool.wait();
    facts.note("pool.kept", pool.state(base));
    for keep in [40 * MIB, 0] {
        call!(pool.card.cuda, "cuMemPoolTrimTo"(*mut c_void: pool.pool, usize: keep));
        facts.note(format!("pool.trimmed_to_{keep}"), pool.state(base));
    }
    pool.set(4, 0);
}

fn graphs(card: &Card, stream: *mut c_void, facts: &mut Facts) {
    let cuda = &card.cuda;
    let base = card.used();
    let attribute = |which: u32| {
        let mut value = u64::MAX;
        call!(cuda, "cuDeviceGetGraphMemAttribute"(i32: 0, u32: which, *mut u64: &mut value));
        value
    };
    let state = || {
        json!({
            "used": attribute(0), "used_high": attribute(1), "reserved": attribute(2),
            "reserved_high": attribute(3), "card": card.used() - base,
        })
    };
    let begin = call!(cuda, "cuStreamBeginCapture_v2"(*mut c_void: stream, u32: 2));
    facts.note("graph.begin_code", begin);
    if begin != 0 {
        return;
    }
    let mut pointers = [0u64; 2];
    for (pointer, bytes) in pointers.iter_mut().zip([10 * MIB, 3 * MIB + 5]) {
        let code =
            call!(cuda, "cuMemAllocAsync"(*mut u64: pointer, usize: bytes, *mut c_void: stream));
        facts.note(format!("graph.alloc_{bytes}_code"), code);
    }
    // The second block outlives the launch.
    call!(cuda, "cuMemFreeAsync"(u64: pointers[0], *mut c_void: stream));
    let (mut graph, mut ready) = (core::ptr::null_mut(), core::ptr::null_mut());
    let end = call!(cuda, "cuStreamEndCapture"(*mut c_void: stream, *mut *mut c_void: &mut graph));
    facts.note("graph.end_code", end);
    facts.note("graph.captured", state());
    let code = call!(cuda, "cuGraphInstantiateWithFlags"(
        *mut *mut c_void: &mut ready, *mut c_void: graph, u64: 0
    ));
    facts.note("graph.instantiate_code", code);
    if code != 0 {
        return;
    }
    facts.note("graph.instantiated", state());
    call!(cuda, "cuGraphUpload"(*mut c_void: ready, *mut c_void: stream));
    call!(cuda, "cuStreamSynchronize"(*mut c_void: stream));
    facts.note("graph.uploaded", state());
    let launch = || call!(cuda, "cuGraphLaunch"(*mut c_void: ready, *mut c_void: stream));
    facts.note("graph.launch_code", launch());
    call!(cuda, "cuStreamSynchronize"(*mut c_void: stream));
    facts.note("graph.launched", state());
    facts.note("graph.launch_with_a_block_live_code", launch());
    facts.note("graph.free_code", card.free(pointers[1]));
    facts.note("graph.freed", state());
    facts.note("graph.second_launch_code", launch());
    call!(cuda, "cuStreamSynchronize"(*mut c_void: stream));
    facts.note("graph.launched_again", state());
    card.free(pointers[1]);
    call!(cuda, "cuGraphExecDestroy"(*mut c_void: ready));
    call!(cuda, "cuGraphDestroy"(*mut c_void: graph));
    facts.note("graph.destroyed", state());
    facts.note(
        "graph.trim_code",
        call!(cuda, "cuDeviceGraphMemTrim"(i32: 0)),
    );
    facts.note("graph.trimmed", state());
}
