//! Help, manual pages and completions: what the command line has, and an example of each command.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use tempfile::tempdir;

use crate::run::{run, stderr, stdout};

/// A command's help and those below it, by their words.
fn helps(words: &str, found: &mut Vec<(String, String)>) {
    let line = words.split_whitespace().chain(["--help"]);
    let output = run(line);
    assert_eq!(output.status.code(), Some(0), "{words}");
    let text = stdout(&output);
    found.push((words.to_owned(), text.clone()));
    let below = text.split_once("Commands:\n").map_or("", |(_, rest)| rest);
    let below = below.split("\n\n").next().unwrap_or_default();
    let names = below.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!["", "help"].contains(&name)).then_some(name)
    });
    for name in names {
        helps(&format!("{words} {name}"), found);
    }
}

/// Somebody can read all of them.
#[test]
fn commands_and_options_are_few_and_have_examples() {
    let mut found = Vec::new();
    helps("", &mut found);
    let is_command = |words: &str| words.split_whitespace().count() == 1;
    let commands = found.iter().filter(|(words, _)| is_command(words)).count();
    assert!((15..=20).contains(&commands), "{commands} commands");
    let mut options = BTreeSet::new();
    for (words, text) in &found {
        assert!(text.contains("Examples:\n  "), "{words}: {text}");
        assert!(
            text.contains(&format!("\n  gpumem-analyze{words} ")),
            "{words}: {text}"
        );
        options.extend(text.lines().filter_map(|line| {
            let line = line.trim_start();
            let short = || Some(line.strip_prefix('-')?.split_once(", --")?.1);
            let name = line.strip_prefix("--").or_else(short)?;
            let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '-';
            name.split(is_end).next()
        }));
    }
    assert!(
        (75..=90).contains(&options.len()),
        "{}: {options:?}",
        options.len()
    );
    assert!(found[0].1.contains("Exit codes:"), "{}", found[0].1);
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = tempdir().expect("a folder");
    let done = run(["--generate", "man", "-o"]
        .map(OsStr::new)
        .into_iter()
        .chain([folder.path().as_os_str()]));
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let files = std::fs::read_dir(folder.path()).expect("pages");
    let pages: BTreeSet<String> = files
        .map(|file| file.expect("a page").file_name().to_string_lossy().into())
        .collect();
    let mut found = Vec::new();
    helps("", &mut found);
    for (words, _) in found {
        let page = format!("gpumem-analyze{}.1", words.replace(' ', "-"));
        assert!(pages.contains(&page), "{page}: {pages:?}");
    }
    let page = stdout(&run(["--generate", "man-fleet-ingest"]));
    assert!(page.contains(".TH") && page.contains("gpumem"), "{page}");
}

#[test]
fn completions_are_those_of_a_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(["--generate", &format!("complete-{shell}")]));
        assert!(script.contains("flamegraph"), "{script}");
    }
    for wrong in [
        &["--generate", "man", "lines", "f"][..],
        &["--generate", "man", "f"],
        &["--generate", "html"],
        &["-o", "pages", "f"],
    ] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
