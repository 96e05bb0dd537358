//! Text for locales that are not UTF-8.

use std::borrow::Cow;

/// Whether the locale is UTF-8.
pub fn is_utf_8() -> bool {
    named().is_some_and(|locale| says_utf_8(&locale))
}

/// Whether text must be ASCII: a locale is set, and it is not UTF-8. Without a locale, as in most containers, terminals
/// show UTF-8.
pub fn wants_ascii() -> bool {
    named().is_some_and(|locale| !says_utf_8(&locale))
}

/// The locale of characters, by the rules of POSIX.
fn named() -> Option<String> {
    let of = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    of("LC_ALL")
        .or_else(|| of("LC_CTYPE"))
        .or_else(|| of("LANG"))
}

fn says_utf_8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    // glibc's modifiers follow the character set: `de_DE.UTF-8@euro`.
    let set = locale.split('@').next().unwrap_or_default();
    set.ends_with("utf-8") || set.ends_with("utf8")
}

/// The text in ASCII. Most characters are replaced by one, so that columns stay aligned; an ellipsis becomes `~`, or
/// three dots as a separate word.
pub fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let begins_word = || {
            let before = text[..at].chars().next_back();
            let after = text[at + c.len_utf8()..].chars().next();
            before.is_none_or(char::is_whitespace) && after == Some(' ')
        };
        match c {
            '…' if begins_word() => out.push_str("..."),
            '…' => out.push('~'),
            '→' => out.push_str("->"),
            '±' => out.push_str("+-"),
            'µ' => out.push('u'),
            '×' => out.push('x'),
            '·' | '–' | '—' | '─' | '−' => out.push('-'),
            '▸' | '▶' => out.push('>'),
            '│' | '┃' | '┊' | '⋮' | '╵' => out.push('|'),
            '▲' => out.push('^'),
            '✕' => out.push('x'),
            '≈' => out.push('~'),
            '├' | '└' | '┌' | '┐' | '┘' | '┤' | '┬' | '┴' | '┼' => out.push('+'),
            '█' | '▉' | '▊' | '▋' | '▇' | '▆' => out.push('#'),
            '▌' | '▍' | '▅' | '▄' => out.push('='),
            '▎' | '▏' | '▃' | '▂' | '▁' => out.push('-'),
            '▓' => out.push('%'),
            '▒' => out.push(':'),
            '░' => out.push('.'),
            '\u{a0}' => out.push(' '),
            c if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_name_their_characters() {
        for yes in ["C.UTF-8", "en_US.utf8", "de_DE.UTF-8@euro"] {
            assert!(says_utf_8(yes), "{yes}");
        }
        for no in ["C", "POSIX", "de_DE@euro", "ja_JP.eucJP", ""] {
            assert!(!says_utf_8(no), "{no}");
        }
    }

    #[test]
    fn no_character_is_left_that_is_not_ascii() {
        let text = "a.py:1  x = f(…  1.00 MiB  ██▌  · 3 → 4\n… 2 more\n  … 3 more名\u{a0}x";
        let expected = "a.py:1  x = f(~  1.00 MiB  ##=  - 3 -> 4\n... 2 more\n  ... 3 more? x";
        assert_eq!(ascii(text), expected);
        assert_eq!(ascii("plain"), "plain");
    }
}
