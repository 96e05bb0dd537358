//! Prints the verdict of each capture's main failure: `cargo run --example verdict FILE…`.

use std::path::Path;

use gpumem_capture::{Level, Reader};
use gpumem_judge::{Follow, judge, words};
use gpumem_replay::{At, OutOfMemory, Replay};

fn failure_of(path: &Path) -> Option<(Replay, OutOfMemory)> {
    let mut replay = Replay::new(At::End);
    let mut reader = Reader::open(path).ok()?;
    reader
        .read(&mut |record| {
            let _ = replay.feed(record);
        })
        .ok()?;
    let (_, failure) = replay.main_failure()?;
    Some((replay, failure))
}

fn main() {
    let all = std::env::args().any(|argument| argument == "--facts");
    for argument in std::env::args().skip(1).filter(|of| of != "--facts") {
        let path = Path::new(&argument);
        println!("=== {argument}");
        let Some((first, failure)) = failure_of(path) else {
            println!("no failure");
            continue;
        };
        let level = match first
            .levels
            .contains_key(&(failure.event.device, Level::TENSOR))
        {
            true => Level::TENSOR,
            false => Level::DRIVER,
        };
        let mut follow = Follow::new(failure, level);
        let mut replay = Replay::new(At::Event(failure.seq));
        let mut reader = Reader::open(path).expect("opened before");
        let read = reader.read(&mut |record| {
            let effect = replay.feed(record);
            follow.observe(&replay, record, effect);
        });
        read.expect("read before");
        let facts = follow.facts().expect("has the failure");
        let verdict = judge(facts);
        let names = &replay.names;
        println!("{} ({})", verdict.kind.name(), verdict.certainty.name());
        println!("  {}", words::what(names, facts, &verdict));
        println!(
            "  -> {}",
            words::advice(names, facts, &verdict).unwrap_or_default()
        );
        println!(
            "  went on: {}; failure {} of {}",
            facts.went_on,
            failure.seq.0,
            first.failures.count()
        );
        if all {
            println!("{facts:#?}");
        }
    }
}
