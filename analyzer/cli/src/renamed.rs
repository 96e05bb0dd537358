//! Commands of earlier releases, which are forms of others now. They work until the next release.

use std::ffi::OsString;

/// A command of earlier releases: its name, its new form, and its options that have other names now.
type Renamed = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

const RENAMED: [Renamed; 8] = [
    ("fragmentation", &["ledger", "--pool"], &[]),
    ("recover", &["check"], &[]),
    ("scopes", &["lines", "--by", "scope"], &[]),
    (
        "sizes",
        &["lines", "--by", "size"],
        &[("--exact", "--each")],
    ),
    ("summary", &["report", "--all"], &[]),
    (
        "symbolize",
        &["check"],
        &[("-o", "--symbolize"), ("--output", "--symbolize")],
    ),
    ("temporary", &["lines", "--of", "temporary"], &[]),
    ("threads", &["lines", "--by", "thread"], &[]),
];

/// Options before a command that have a value.
const WITH_VALUE: [&str; 9] = [
    "--color",
    "--colour",
    "--max-memory",
    "--source-root",
    "--code",
    "--symbols",
    "--debug-dir",
    "--sysroot",
    "--format",
];

/// A command line with a renamed command, in its new form, and a message that names the form.
pub fn renamed(arguments: &[OsString]) -> Option<(Vec<OsString>, String)> {
    let at = command_at(arguments)?;
    let is_about = arguments[at] == "help" || arguments[at] == "man";
    let at = if is_about { at + 1 } else { at };
    let word = arguments.get(at)?;
    let (name, form, options) = RENAMED.iter().find(|of| *word == of.0)?;
    let mut line = arguments[..at].to_vec();
    // Help is about a command.
    let shown = if is_about { 1 } else { form.len() };
    line.extend(form.iter().take(shown).map(OsString::from));
    for argument in &arguments[at + 1..] {
        line.push(option_of(argument, options));
    }
    let mut words = form.join(" ");
    if *name == "symbolize" {
        words.push_str(" --symbolize OUT.bin");
    }
    let message = format!("`{name}` is now `{words}`: the old name works until the next release");
    Some((line, message))
}

/// The names of these commands.
pub fn old_names() -> impl Iterator<Item = &'static str> {
    RENAMED.iter().map(|of| of.0)
}

/// The index of the command.
fn command_at(arguments: &[OsString]) -> Option<usize> {
    let mut words = arguments.iter().enumerate().skip(1);
    while let Some((at, word)) = words.next() {
        let word = word.to_str()?;
        if word == "--" {
            return None;
        } else if WITH_VALUE.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(at);
        }
    }
    None
}

fn option_of(argument: &OsString, options: &[(&str, &str)]) -> OsString {
    let Some(text) = argument.to_str() else {
        return argument.clone();
    };
    for (old, new) in options {
        if text == *old {
            return (*new).into();
        }
        let value = text.strip_prefix(old);
        let is_short = !old.starts_with("--");
        let value = value.and_then(|value| match value.strip_prefix('=') {
            None if is_short => Some(value),
            value => value,
        });
        if let Some(value) = value {
            return format!("{new}={value}").into();
        }
    }
    argument.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let (line, _) = renamed(&line)?;
        let words = line.iter().map(|word| word.to_string_lossy().into_owned());
        Some(words.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn old_commands_are_forms_of_others() {
        for (old, new) in [
            ("a sizes --exact r.bin", "a lines --by size --each r.bin"),
            (
                "a --color never threads r.bin",
                "a --color never lines --by thread r.bin",
            ),
            (
                "a symbolize r.bin -o o.bin",
                "a check r.bin --symbolize o.bin",
            ),
            (
                "a symbolize --output=o.bin r.bin",
                "a check --symbolize=o.bin r.bin",
            ),
            ("a symbolize r.bin", "a check r.bin"),
            (
                "a symbolize -oo.bin r.bin",
                "a check --symbolize=o.bin r.bin",
            ),
            ("a help sizes", "a help lines"),
            ("a man recover", "a man check"),
        ] {
            assert_eq!(of(old).as_deref(), Some(new));
        }
        assert_eq!(of("a lines sizes"), None);
        assert_eq!(of("a --code sizes"), None);
        assert_eq!(of("a --symbols sizes r.bin"), None);
        assert_eq!(of("a -- sizes"), None);
        assert_eq!(of("a"), None);
    }
}
