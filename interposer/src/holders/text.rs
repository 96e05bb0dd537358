//! The text of holders: the lines on stderr, and those in the capture.

use std::fmt::Write as _;

use gpumem_holders::{Cut, Holder, Holders, Kind};
use gpumem_replay::units::{bytes, count, percent};

/// The maximum number of lines on stderr.
const LINES: usize = 8;

/// The lines on stderr. `live`: the live bytes of the device's tensors.
pub(super) fn shown(holders: &Holders, live: u64) -> String {
    let mut out = String::new();
    if holders.holders.is_empty() && holders.cut.is_none() {
        return out;
    }
    let title = "live tensors, by holder";
    let _ = writeln!(out, "  {:>10}  share  {:>9}  {title}", "bytes", "blocks");
    let mut row = |held: u64, blocks: String, text: &str| {
        let share = percent(held, live);
        let _ = writeln!(
            out,
            "  {:>10}  {share:>5}  {blocks:>9}  {text}",
            bytes(held)
        );
    };
    let first = holders.holders.get(..LINES).unwrap_or(&holders.holders);
    for holder in first {
        row(holder.bytes, count(holder.blocks), &label(holder));
    }
    let sum = |of: &[Holder]| of.iter().map(|holder| holder.bytes).sum::<u64>();
    let rest = holders.bytes.saturating_sub(sum(first));
    if rest != 0 {
        row(rest, String::new(), "other holders");
    }
    let without = live.saturating_sub(holders.bytes);
    if without != 0 && holders.cut.is_none() {
        let text = "no Python object: autograd, or other native code";
        row(without, String::new(), text);
    }
    if let Some(cut) = holders.cut {
        let why = match cut {
            Cut::Time => "it ran out of time",
            Cut::Size => "there are too many objects",
            Cut::Memory => "there was no memory for it",
        };
        let _ = writeln!(out, "  The search was not completed: {why}");
    }
    out
}

/// A holder in one line.
fn label(holder: &Holder) -> String {
    let Holder {
        kind, text, place, ..
    } = holder;
    // `of installed packages` goes on with the sentence.
    let join = match place.starts_with("of ") {
        true => " ",
        false => ", ",
    };
    match kind {
        Kind::Object if !holder.is_own => format!("values of {text}{join}{place}"),
        Kind::Graph if !holder.is_own => format!("graph of {text}{join}{place}"),
        Kind::Parameters => format!("{text}: parameters and buffers, {place}"),
        Kind::Gradients => format!("{text}: gradients, {place}"),
        Kind::Graph => format!("graph of {text}, {place}"),
        Kind::Cycle => format!("{text}, in a reference cycle that gc.collect() frees"),
        _ => format!("{text}, {place}"),
    }
}

/// The lines in the capture: see docs/SPEC.md.
pub(super) fn recorded(holders: &Holders, live: u64) -> String {
    let cut = match holders.cut {
        None => "whole",
        Some(Cut::Time) => "time",
        Some(Cut::Size) => "size",
        Some(Cut::Memory) => "memory",
    };
    let mut out = String::new();
    let (us, objects) = (holders.time.as_micros(), holders.objects);
    let references = holders.references;
    let _ = writeln!(
        out,
        "walk {cut} {us} {objects} {references} {live} {}",
        holders.bytes
    );
    for holder in &holders.holders {
        let (bytes, blocks, kind) = (holder.bytes, holder.blocks, holder.kind.word());
        let frees = holder
            .frees
            .map_or_else(|| String::from("-"), |bytes| bytes.to_string());
        let whose = if holder.is_own { "own" } else { "other" };
        let Holder { text, place, .. } = holder;
        let _ = writeln!(out, "holder {kind} {whose} {bytes} {blocks} {frees}");
        let _ = write!(out, "text {text}\nplace {place}\n");
        if let Some(also) = &holder.also {
            let _ = writeln!(out, "also {also}");
        }
        if let Some(covers) = holder.covers {
            let _ = writeln!(out, "covers {covers}");
        }
        if holder.double > 0 {
            let _ = writeln!(out, "double {}", holder.double);
        }
        if holder.unused {
            out += "unused\n";
        }
    }
    for (block, holder) in &holders.blocks {
        let _ = writeln!(out, "block {block:x} {holder}");
    }
    out
}
