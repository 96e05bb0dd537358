//! Commands of earlier releases, which are forms of others now. They work until the next release.

use std::ffi::OsString;
use std::path::Path;

use crate::commands::output::beside;

/// A command of earlier releases: its name, its new form, and its options that have other names now. An option with an
/// empty name is only its value now.
type Renamed = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

const RENAMED: [Renamed; 12] = [
    ("export arrow", &["export", "arrow-stream"], &[]),
    ("export prometheus", &["live", "--metrics", "--once"], &[]),
    (
        "exporter",
        &["live", "--metrics"],
        &[("--captures", ""), ("--listen", "")],
    ),
    ("fragmentation", &["ledger", "--pool"], &[]),
    ("hints", &["report", "--hints"], &[]),
    ("recover", &["check"], &[]),
    ("scopes", &["lines", "--by", "scope"], &[]),
    ("sizes", &["lines", "--by", "size"], &[("--exact", "--all")]),
    ("summary", &["report", "--all"], &[]),
    (
        "symbolize",
        &["check"],
        &[("-o", "--symbolize"), ("--output", "--symbolize")],
    ),
    ("temporary", &["lines", "--of", "temporary"], &[]),
    ("threads", &["lines", "--by", "thread"], &[]),
];

/// Options of earlier releases: the name, the new one, and the unit that a value has now.
const OPTIONS: [(&str, &str, &str); 9] = [
    ("--comment", "--output", ""),
    ("--each", "--all", ""),
    ("--folded", "--format=folded", ""),
    ("--html", "--output", ""),
    ("--icicle", "--format=icicle", ""),
    ("--lines", "--top", ""),
    ("--no-source-text", "--no-source", ""),
    ("--otlp-every", "--every", ""),
    ("--within-ms", "--within", "ms"),
];

/// Options before a command that have a value.
const WITH_VALUE: [&str; 14] = [
    "--generate",
    "--output",
    "-o",
    "--color",
    "--colour",
    "--max-memory",
    "--source-root",
    "--code",
    "--symbols",
    "--debug-dir",
    "--sysroot",
    "--format",
    "--lines",
    "--top",
];

/// The command line in its new form, and a message for each old name in it.
pub fn renamed(arguments: &[OsString]) -> (Vec<OsString>, Vec<String>) {
    let new = generated(arguments).or_else(|| command(arguments));
    let (mut line, message) = new.map_or((arguments.to_vec(), None), |(line, message)| {
        (line, Some(message))
    });
    let messages = message.into_iter().chain(options(&mut line)).collect();
    (line, messages)
}

/// A command of earlier releases.
fn command(arguments: &[OsString]) -> Option<(Vec<OsString>, String)> {
    let at = command_at(arguments, 1)?;
    let is_about = arguments[at] == "help";
    let at = if is_about { at + 1 } else { at };
    let is_at = |name: &str| {
        let words = arguments.get(at..).unwrap_or_default();
        let mut named = name.split(' ').enumerate();
        named.all(|(place, word)| words.get(place).is_some_and(|of| of == word))
    };
    let (name, form, options) = RENAMED.iter().find(|of| is_at(of.0))?;
    let rest = at + name.split(' ').count();
    let mut line = arguments[..at].to_vec();
    // Help is about a command.
    let shown = if is_about { 1 } else { form.len() };
    line.extend(form.iter().take(shown).map(OsString::from));
    let rest = arguments.get(rest..).unwrap_or_default();
    line.extend(rest.iter().filter_map(|of| option_of(of, options)));
    if *name == "export prometheus" && !is_about {
        line.extend(beside_capture(rest).into_iter().flatten());
    }
    let words = match *name {
        "symbolize" => "`check --symbolize OUT.bin`".to_owned(),
        "export arrow" => "`gpumem.open(…).events()` in Python".to_owned(),
        _ => format!("`{}`", form.join(" ")),
    };
    Some((line, said(name, &words)))
}

/// `man` and `completions`, which are values of an option now.
fn generated(arguments: &[OsString]) -> Option<(Vec<OsString>, String)> {
    let at = command_at(arguments, 1)?;
    let is_about = arguments[at] == "help";
    let name = arguments.get(at + usize::from(is_about))?.to_str()?;
    let mut value = match name {
        "man" => "man".to_owned(),
        "completions" => "complete".to_owned(),
        _ => return None,
    };
    let shell = if value == "man" { "" } else { "-SHELL" };
    let mut rest = &arguments[at + 1..];
    let is_help = |word: &OsString| word == "-h" || word == "--help";
    if is_about || rest.iter().any(is_help) {
        let line = [&arguments[..at], &["--help".into()]].concat();
        return Some((line, said(name, &format!("`--generate {value}{shell}`"))));
    }
    while let Some((word, others)) = rest.split_first() {
        let word = word.to_str().filter(|word| !word.starts_with('-'));
        let Some(word) = word else { break };
        let of_others = RENAMED.iter().find(|of| of.0 == word);
        value = format!("{value}-{}", of_others.map_or(word, |of| of.1[0]));
        rest = others;
    }
    let form = ["--generate".into(), value.clone().into()];
    let line = [&arguments[..at], &form, rest].concat();
    Some((line, said(name, &format!("`--generate {value}`"))))
}

/// Puts the new names of options into the line. Returns the messages.
fn options(line: &mut [OsString]) -> Vec<String> {
    let mut messages = Vec::new();
    let end = line.iter().position(|word| word == "--");
    for at in 0..end.unwrap_or(line.len()) {
        let word = line[at].to_string_lossy().into_owned();
        let (name, value) = word
            .split_once('=')
            .map_or((&*word, None), |(name, value)| (name, Some(value)));
        let Some((old, new, unit)) = OPTIONS.iter().find(|of| of.0 == name) else {
            continue;
        };
        line[at] = value.map_or((*new).into(), |value| format!("{new}={value}{unit}").into());
        if let Some(next) = line.get_mut(at + 1).filter(|_| value.is_none()) {
            next.push(unit);
        }
        let form = if unit.is_empty() {
            (*new).to_owned()
        } else {
            format!("{new} N{unit}")
        };
        messages.push(said(old, &format!("`{form}`")));
    }
    messages
}

fn said(name: &str, form: &str) -> String {
    format!("`{name}` is now {form}: the old name works until the next release")
}

/// The names of these commands, without those that still exist.
pub fn old_names() -> impl Iterator<Item = &'static str> {
    RENAMED
        .iter()
        .map(|of| of.0)
        .filter(|name| !name.contains(' '))
}

/// The file that `export` wrote if none was named.
fn beside_capture(arguments: &[OsString]) -> Option<[OsString; 2]> {
    let is_named = |of: &OsString| {
        let of = of.to_string_lossy();
        of.starts_with("--output") || (of.starts_with("-o") && !of.starts_with("--"))
    };
    if arguments.iter().any(is_named) {
        return None;
    }
    let file = Path::new(arguments.get(command_at(arguments, 0)?)?);
    Some(["-o".into(), beside(file, "prom").into()])
}

/// The index of the command, or of the first word that is no option.
fn command_at(arguments: &[OsString], from: usize) -> Option<usize> {
    let mut words = arguments.iter().enumerate().skip(from);
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

/// The argument as it is now; `None`: it is left out.
fn option_of(argument: &OsString, options: &[(&str, &str)]) -> Option<OsString> {
    let Some(text) = argument.to_str() else {
        return Some(argument.clone());
    };
    for (old, new) in options {
        if text == *old {
            return (!new.is_empty()).then(|| (*new).into());
        }
        let value = text.strip_prefix(old);
        let is_short = !old.starts_with("--");
        let value = value.and_then(|value| match value.strip_prefix('=') {
            None if is_short => Some(value),
            value => value,
        });
        if let Some(value) = value {
            return Some(match new.is_empty() {
                true => value.into(),
                false => format!("{new}={value}").into(),
            });
        }
    }
    Some(argument.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let (line, messages) = renamed(&line);
        let words = line.iter().map(|word| word.to_string_lossy().into_owned());
        (!messages.is_empty()).then(|| words.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn old_commands_are_forms_of_others() {
        for (old, new) in [
            ("a sizes --exact r.bin", "a lines --by size --all r.bin"),
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
            (
                "a exporter --listen 127.0.0.1:0 --captures=runs --every 1",
                "a live --metrics 127.0.0.1:0 runs --every 1",
            ),
            (
                "a export prometheus -o - r.bin",
                "a live --metrics --once -o - r.bin",
            ),
            (
                "a export prometheus r.bin",
                "a live --metrics --once r.bin -o r.prom",
            ),
            (
                "a export prometheus --lines 3 r.bin",
                "a live --metrics --once --top 3 r.bin -o r.prom",
            ),
            (
                "a hints --format json r.bin",
                "a report --hints --format json r.bin",
            ),
            ("a help man", "a --help"),
            (
                "a temporary --within-ms 0.5 r.bin",
                "a lines --of temporary --within 0.5ms r.bin",
            ),
            ("a tree --within-ms=2 r.bin", "a tree --within=2ms r.bin"),
            (
                "a fleet rows --no-source-text r.bin",
                "a fleet rows --no-source r.bin",
            ),
            (
                "a export arrow -o - r.bin",
                "a export arrow-stream -o - r.bin",
            ),
            ("a help sizes", "a help lines"),
            ("a help exporter", "a help live"),
            ("a man recover", "a --generate man-check"),
            ("a man fleet ingest", "a --generate man-fleet-ingest"),
            ("a man -o pages", "a --generate man -o pages"),
            ("a completions bash", "a --generate complete-bash"),
        ] {
            assert_eq!(of(old).as_deref(), Some(new));
        }
        assert_eq!(of("a lines sizes"), None);
        assert_eq!(of("a export csv r.bin"), None);
        assert_eq!(of("a export csv arrow"), None);
        assert_eq!(of("a export"), None);
        assert_eq!(of("a --code sizes"), None);
        assert_eq!(of("a --symbols sizes r.bin"), None);
        assert_eq!(of("a -- sizes"), None);
        assert_eq!(of("a lines -- --within-ms"), None);
        assert_eq!(of("a --generate man"), None);
        assert_eq!(of("a"), None);
    }
}
