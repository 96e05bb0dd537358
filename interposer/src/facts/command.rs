//! The recorded command line: quoted for a shell, without the values of words that name a secret (docs/privacy.md).

mod secret;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;

use self::secret::names_a_secret;

/// The text that replaces a value.
const MASK: &str = "***";
/// Values that are no secret.
const NO_SECRET: [&str; 8] = ["true", "false", "none", "null", "yes", "no", "on", "off"];
/// The first word of a header's value.
const SCHEMES: [&str; 5] = ["bearer", "basic", "token", "digest", "negotiate"];

/// An argument, quoted for a shell.
pub(crate) fn quoted(argument: &OsStr) -> String {
    in_quotes(&argument.to_string_lossy(), "")
}

/// The text in quotes, unless all of it is plain or one of the characters in `also`.
fn in_quotes(text: &str, also: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%^".contains(c) || also.contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// This process's command line.
pub(super) fn of_process() -> String {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    let words = bytes.split(|&byte| byte == 0);
    let words = words.map(|word| OsString::from_vec(word.to_vec()));
    shown(words.map(|word| word.to_string_lossy().into_owned()))
}

/// The words, masked, and quoted where that is necessary: [`MASK`] needs no quotes.
fn shown(words: impl Iterator<Item = String>) -> String {
    let (mut line, mut next, mut is_code) = (String::new(), Next::Word, false);
    for word in words {
        let masked = match next {
            Next::Value if !is_flag(&word) => {
                next = Next::Word;
                value(&word)
            }
            Next::Header => {
                let is_scheme = SCHEMES.contains(&word.to_ascii_lowercase().as_str());
                next = if is_scheme { Next::Value } else { Next::Word };
                if is_scheme {
                    word.clone()
                } else {
                    header(&word)
                }
            }
            Next::Word | Next::Value => {
                let (masked, after) = masked(&word, is_code);
                next = after;
                masked
            }
        };
        // `bash -c`, `bash -lc`, `python -c`.
        is_code =
            word.len() <= 4 && is_flag(&word) && !word.starts_with("--") && word.ends_with('c');
        if !line.is_empty() {
            line.push(' ');
        }
        let is_same = masked == word;
        line.push_str(&in_quotes(&masked, if is_same { "" } else { MASK }));
    }
    line
}

/// What the word after a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// No value of it.
    Word,
    /// The value of a secret, unless it is an option.
    Value,
    /// The value of the header `Authorization`.
    Header,
}

/// Whether a word is an option, not a value.
fn is_flag(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next() == Some('-') && chars.next().is_some_and(|c| c == '-' || c.is_alphabetic())
}

/// The value of a secret as it is shown.
fn value(text: &str) -> String {
    let is_known = NO_SECRET.contains(&text.to_ascii_lowercase().as_str());
    if text.is_empty() || is_known {
        text.to_owned()
    } else {
        MASK.to_owned()
    }
}

/// The value of the header `Authorization` as it is shown: its scheme stays.
fn header(text: &str) -> String {
    match text.split_once(' ') {
        Some((scheme, rest)) if SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) => {
            format!("{scheme} {}", value(rest.trim_start()))
        }
        _ => value(text),
    }
}

/// A word, or the text of a program in a word (`is_code`), without the values that follow names of secrets in it; and
/// what the next word is.
fn masked(word: &str, is_code: bool) -> (String, Next) {
    let word = without_users(word);
    let is_of_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let (mut out, mut rest, mut is_first) = (String::new(), word.as_str(), !is_code);
    while !rest.is_empty() {
        let from = rest.find(is_of_name).unwrap_or(rest.len());
        let (before, at_name) = rest.split_at(from);
        is_first &= before.is_empty() || before == "+";
        let end = at_name.find(|c| !is_of_name(c)).unwrap_or(at_name.len());
        let (name, after) = at_name.split_at(end);
        out.push_str(before);
        out.push_str(name);
        rest = after;
        if !names_a_secret(name) {
            is_first = false;
            continue;
        }
        if after.is_empty() && is_flag(name) && is_first {
            return (out, Next::Value);
        }
        let Some((gap, at_value)) = separated(name, after) else {
            is_first = false;
            continue;
        };
        out.push_str(gap);
        let is_of_header =
            |header| name.to_ascii_lowercase().ends_with(header) && gap.contains(':');
        let is_header = is_of_header("authorization");
        if is_header && at_value.is_empty() {
            return (out, Next::Header);
        }
        let is_rest = is_first && gap == "=";
        let length = match (is_rest, gap.chars().last().filter(|c| "'\"".contains(*c))) {
            (true, _) => at_value.len(),
            (false, Some(quote)) => at_value.find(quote).unwrap_or(at_value.len()),
            (false, None) if is_header || is_of_header("cookie") => {
                at_value.find(['\'', '"', '\n']).unwrap_or(at_value.len())
            }
            (false, None) => at_value
                .find(|c: char| c.is_whitespace() || "&;,'\")]}|".contains(c))
                .unwrap_or(at_value.len()),
        };
        let (secret, after) = at_value.split_at(length);
        out.push_str(&if is_header {
            header(secret)
        } else {
            value(secret)
        });
        rest = after;
        is_first = false;
    }
    (out, Next::Word)
}

/// What is between a name and its value, and what follows: `=`, `:` or, after an option, a space, with the brackets and
/// quotes around them. None if no value follows.
fn separated<'a>(name: &str, after: &'a str) -> Option<(&'a str, &'a str)> {
    let closed = after.trim_start_matches(['\'', '"', ']', ')']);
    let spaced = closed.trim_start();
    let value = if let Some(value) = spaced.strip_prefix('=') {
        value
    } else if let Some(value) = spaced
        .strip_prefix(':')
        .filter(|value| !value.starts_with("//"))
    {
        value
    } else if is_flag(name) && spaced.len() < closed.len() && !is_flag(spaced) {
        spaced
    } else {
        return None;
    };
    let value = value.trim_start();
    let value = value.strip_prefix(['\'', '"']).unwrap_or(value);
    Some(after.split_at(after.len() - value.len()))
}

/// The text without the passwords of URLs: `scheme://user:password@host`, and without the user of http, which is a
/// token there.
fn without_users(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || "/?#'\"".contains(c))
            .unwrap_or(after.len());
        let (authority, behind) = after.split_at(end);
        rest = behind;
        let is_http = before.ends_with("http://") || before.ends_with("https://");
        match authority.rsplit_once('@') {
            None => out.push_str(authority),
            Some((user, host)) => {
                match user.split_once(':') {
                    Some((user, password)) => {
                        out.push_str(user);
                        out.push(':');
                        out.push_str(if password.is_empty() { "" } else { MASK });
                    }
                    None => out.push_str(if is_http { MASK } else { user }),
                }
                out.push('@');
                out.push_str(host);
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
