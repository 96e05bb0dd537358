//! Text of programs, made safe to show: in a terminal, a page, a picture or a line of a log.
//!
//! Names of functions, files, ranges and threads are whatever a program chose. [`crate::Definition`] is decoded with
//! clean text, so that views and exports need no filters; text from other sources (symbols, lines of source,
//! paths) is passed through [`clean`] where it enters.

use std::borrow::Cow;

/// What replaces a character that is not shown.
const REPLACEMENT: char = '\u{fffd}';

/// Text as one line: characters that move the cursor, start an escape sequence, end the line, change the direction of
/// text, or are invisible become U+FFFD.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    replaced(text, is_hidden)
}

/// The same for text of several lines: line feeds stay.
#[must_use]
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c != '\n' && is_hidden(c))
}

fn replaced(text: &str, is_replaced: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(is_replaced, REPLACEMENT.encode_utf8(&mut [0; 4])))
}

/// Control characters (C0, DEL, C1), separators of lines and paragraphs, marks and overrides of the direction of text,
/// tags, invisible characters, and what XML does not allow. The joiners that words and emoji need stay.
fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}' => true,
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' => true,
        '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_or_a_reader_would_act_on_is_replaced() {
        for (text, shown) in [
            ("plain ünïcode 模块 👩\u{200d}🔬", None),
            ("\x1b[2J\x1b]0;title\x07", Some("�[2J�]0;title�")),
            ("a\nb\rc\td\0e\x7ff", Some("a�b�c�d�e�f")),
            ("\u{9b}31m\u{85}", Some("�31m�")),
            (
                "\u{202e}gpj.exe\u{2066}\u{200f}\u{61c}",
                Some("�gpj.exe���"),
            ),
            ("one\u{2028}two\u{2029}", Some("one�two�")),
            (
                "z\u{200b}e\u{2060}r\u{ad}o\u{3164}\u{e0101}",
                Some("z�e�r�o��"),
            ),
            ("\u{e0041}\u{e007f}\u{feff}\u{ffff}", Some("����")),
        ] {
            assert_eq!(clean(text), shown.unwrap_or(text), "{text:?}");
        }
        assert!(matches!(clean("layer 3"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_stay_in_text_of_several_lines() {
        assert_eq!(clean_lines("a\nb\r\x1b[A\n"), "a\nb��[A\n");
    }
}
