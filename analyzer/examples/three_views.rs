//! The summary, the lines at the peak and the flamegraph of the peak, of one reading of a capture: for
//! scripts/bench-analyzer, which measures what the three take together. `three_views report.bin OUT.svg`
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use std::path::Path;
use std::process::ExitCode;

use gpumem_analyzer::ask;
use gpumem_analyzer::render::{
    FlameLook, ShownLines, Source, Terminal, bytes, caveats, flamegraph, lines_table, summary_text,
};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::symbols::{PerfMap, Places, Symbols};
use gpumem_analyzer::views::{ByStack, Folded, Folding, Lines, Select, Summary, at};
use gpumem_capture::Level;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, svg] = &arguments[..] else {
        eprintln!("usage: three_views report.bin OUT.svg");
        return ExitCode::from(2);
    };
    let (path, level, terminal) = (Path::new(file), Level::TENSOR, Terminal::PLAIN);
    let session = ask::read(path, At::Peak);
    let session = session.expect("a capture");
    let summary = Summary::of(&session);
    print!(
        "{}",
        summary_text(file, &summary, &session.account, terminal)
    );

    let held = ByStack::at(&session.replay, level, At::Peak, &Select::default());
    let lines = Lines::of(&session.replay, &held);
    let names = &session.replay.names;
    let mut source = Source::new(names, &session.header);
    let title = format!("Lines that own the {level} level at the peak");
    print!("{}", caveats(&session.account, terminal));
    print!(
        "{}",
        lines_table(
            &lines.rows,
            ShownLines::ALL,
            &title,
            names,
            &mut source,
            terminal
        )
    );
    println!("Together {}.", bytes(lines.bytes()));

    let places = Places::of_environment(|name| std::env::var_os(name));
    let mut symbols = Symbols::new(places, PerfMap::of(path, &session.header));
    let mut text = |file: &str, line: u32| source.whole_line(file, line).to_owned();
    let folding = Folding::default();
    let folded = Folded::of(&session.replay, &mut symbols, &held, folding, &mut text);
    let title = folded.title(level, &at(At::Peak));
    let command = names.command().unwrap_or_default();
    let look = FlameLook {
        title: &title,
        subtitle: command,
        ..FlameLook::default()
    };
    let picture = flamegraph(&folded, &look).expect("something was live");
    std::fs::write(svg, picture).expect("a place for the picture");
    ExitCode::SUCCESS
}
