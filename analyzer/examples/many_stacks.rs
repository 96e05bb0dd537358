//! Writes a capture with very many native stacks through a library's own functions, to measure how long
//! names take: `cargo run --release -p gpumem-analyze --example many_stacks -- OUT.bin LIBRARY [STACKS]
//! [DEPTH] [PLACES]`. Each stack is of one live block of 1 KiB. What their frames return to are PLACES
//! distinct instructions of the library.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use std::ops::ControlFlow;
use std::path::Path;

use blazesym::SymType;
use blazesym::helper::read_elf_build_id;
use blazesym::inspect::Inspector;
use blazesym::inspect::source::{Elf, Source};
use gpumem_capture::{
    Definition, DeviceOrdinal, Event, EventKind, Level, ModuleId, Nanos, Options, StackId, Writer,
};

const BIAS: u64 = 0x7f00_0000_0000;

/// A small generator, so that every run makes the same stacks.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Link addresses and sizes of a library's functions.
fn functions(library: &str) -> Vec<(u64, u64)> {
    let mut elf = Elf::new(library);
    elf.debug_syms = false;
    let mut found = Vec::new();
    Inspector::new()
        .for_each(&Source::Elf(elf), |symbol| {
            let size = symbol.size.unwrap_or(0) as u64;
            if symbol.sym_type == SymType::Function && size > 16 {
                found.push((symbol.addr, size));
            }
            ControlFlow::Continue(())
        })
        .expect("a library with symbols");
    found.sort_unstable();
    found.dedup();
    found
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, out, library, counts @ ..] = &arguments[..] else {
        panic!("many_stacks OUT.bin LIBRARY [STACKS] [DEPTH] [PLACES]");
    };
    let count = |at: usize, default| {
        counts
            .get(at)
            .map_or(default, |n| n.parse().expect("a number"))
    };
    let (stacks, depth, places) = (count(0, 100_000), count(1, 50), count(2, 50_000));
    let functions = functions(library);
    let mut random = Random(7);
    let mut returns: Vec<u64> = (0..places)
        .map(|_| {
            let (start, size) = functions[random.below(functions.len())];
            BIAS + start + 1 + random.below(size as usize - 1) as u64
        })
        .collect();
    returns.sort_unstable();
    returns.dedup();
    let writer = Writer::create(Path::new(out), &Options::default()).expect("a new file");
    let drain = std::thread::spawn(|| writer.drain());
    let define = |definition: &Definition| {
        // The ring may be full of stacks: the drain makes room.
        while writer
            .definition(definition.kind(), &[&definition.payload()])
            .is_err()
        {
            std::thread::yield_now();
        }
    };
    define(&Definition::Module {
        id: ModuleId(1),
        bias: BIAS,
        start: BIAS,
        end: u64::MAX,
        path: library.clone(),
        build_id: read_elf_build_id(library)
            .expect("a library")
            .expect("a build id")
            .to_vec(),
    });
    for n in 1..=stacks {
        define(&Definition::NativeStack {
            id: StackId(n as u32),
            truncated: false,
            frames: (0..depth)
                .map(|_| returns[random.below(returns.len())])
                .collect(),
        });
        let event = Event {
            kind: EventKind::ALLOC,
            level: Level::TENSOR,
            device: DeviceOrdinal(0),
            time: Nanos(n as u64),
            ptr: (n as u64) << 10,
            bytes: 1024,
            native_stack: StackId(n as u32),
            ..Event::default()
        };
        while writer.event(&event).is_err() {
            std::thread::yield_now();
        }
    }
    writer.stop_drain();
    drain.join().expect("the drain does not panic");
    writer.finish();
    println!(
        "{stacks} stacks of {depth} frames through {} places in {} functions",
        returns.len(),
        functions.len()
    );
}
