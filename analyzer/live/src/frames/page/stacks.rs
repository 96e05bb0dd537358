//! The page with the stacks of a row and the source around its line.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_analyzer::account::many;
use gpumem_analyzer::attribution::Owner;
use gpumem_analyzer::render::{Source, bytes};
use gpumem_analyzer::replay::{At, Figure, Replay, StackKey};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::symbols::Symbols;
use gpumem_analyzer::views::{Annotated, ByStack, DeviceStacks, Node, Select};
use gpumem_capture::{DeviceOrdinal, Level};

use super::super::which::{Of, Which};
use super::text::{Kind, Page};

/// The most stacks that are shown.
const STACKS: usize = 200;
/// Lines of source before and after that of the row.
const AROUND: u32 = 5;

/// The source and the stacks of a row at the point in time of a session.
pub(crate) fn stacks(
    session: &Session,
    symbols: &mut Symbols,
    (level, moment): (Level, At),
    which: &Which,
    title: &str,
) -> Page {
    let replay = &session.replay;
    let held = which.held(replay, level, moment);
    let mut page = Page::of(title.to_owned());
    if let Of::Line(owner) = &which.of {
        add_source(&mut page, session, (level, moment), owner, which.device);
    }
    let mut all = by_frames(replay, symbols, &held);
    all.sort_by(|a, b| {
        let order = |figure: &Figure| Reverse((figure.bytes, figure.blocks));
        order(&a.1).cmp(&order(&b.1)).then_with(|| a.0.cmp(&b.0))
    });
    if all.is_empty() {
        page.blank();
        page.add(
            Kind::Plain,
            "It holds no memory here: later events changed the category of its blocks.",
        );
    }
    let count = all.len();
    for (number, (frames, figure)) in (1..).zip(all.iter().take(STACKS)) {
        page.blank();
        let (held, blocks) = (bytes(figure.bytes), many(figure.blocks, "block", "blocks"));
        page.add(
            Kind::Strong,
            format!("Stack {number} of {count}: {held} in {blocks}, the oldest frame first"),
        );
        for frame in frames {
            page.add(Kind::Plain, format!("  {frame}"));
        }
    }
    if count > STACKS {
        page.blank();
        let rest: u64 = all[STACKS..].iter().map(|(_, figure)| figure.bytes).sum();
        let more = many((count - STACKS) as u64, "smaller stack", "smaller stacks");
        page.add(Kind::Faint, format!("{more} with {} together", bytes(rest)));
    }
    page
}

/// The memory of each sequence of frames; stacks that look the same count as one.
fn by_frames(replay: &Replay, symbols: &mut Symbols, held: &ByStack) -> Vec<(Vec<String>, Figure)> {
    let mut by_frames: BTreeMap<Vec<String>, Figure> = BTreeMap::new();
    // All names are looked up together.
    Node::tree(replay, symbols, held, true);
    for on in &held.devices {
        for (stacks, figure) in &on.figures {
            let frames = frames(replay, symbols, held.level, on.device, (*stacks, *figure));
            *by_frames.entry(frames).or_default() += *figure;
        }
    }
    by_frames.into_iter().collect()
}

/// The frames of one stack, as a tree of this stack alone has them.
fn frames(
    replay: &Replay,
    symbols: &mut Symbols,
    level: Level,
    device: DeviceOrdinal,
    of: (StackKey, Figure),
) -> Vec<String> {
    let only = ByStack {
        level,
        devices: vec![DeviceStacks {
            device,
            figures: vec![of],
            total: None,
        }],
    };
    let mut node = Node::tree(replay, symbols, &only, true);
    let mut frames = Vec::new();
    while let Some(child) = node.children.pop() {
        frames.push(child.frame.clone());
        node = child;
    }
    frames
}

/// The lines around the owner's, with the memory of each in the margin.
fn add_source(
    page: &mut Page,
    session: &Session,
    (level, moment): (Level, At),
    owner: &Owner,
    device: Option<u8>,
) {
    let Some(line) = owner.line() else { return };
    let replay = &session.replay;
    let select = Select {
        device: Some(device.map_or(DeviceOrdinal::NONE, DeviceOrdinal)),
        file: Some(line.file.clone()),
        ..Select::default()
    };
    let annotated = Annotated::at(replay, level, moment, &select);
    let mut held: BTreeMap<u32, u64> = BTreeMap::new();
    let files = annotated.files.iter().filter(|of| of.file == line.file);
    for of in files.flat_map(|of| &of.lines) {
        *held.entry(of.line).or_default() += of.live_bytes;
    }
    page.add(Kind::Strong, format!("{}:{}", line.file, line.line));
    let mut source = Source::new(&replay.names, &session.header);
    let Some(text) = source.text(&line.file) else {
        page.add(
            Kind::Faint,
            "  the file is not readable here, or changed after the program started",
        );
        return;
    };
    let from = line.line.saturating_sub(AROUND).max(1);
    for (number, text) in (1..).zip(text) {
        if number < from || number > line.line + AROUND {
            continue;
        }
        let held = match held.get(&number) {
            None | Some(0) => String::new(),
            Some(held) => bytes(*held),
        };
        let (mark, kind) = match number == line.line {
            true => ('>', Kind::Marked),
            false => (' ', Kind::Plain),
        };
        let row = format!("{held:>9} {mark}{number:>5}  {text}");
        page.add(kind, row.trim_end());
    }
}
