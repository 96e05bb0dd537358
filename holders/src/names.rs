//! Names that are the program's: which of its files are its own, and what is printed of a name.

/// The longest name that is printed, in characters.
pub(crate) const LONGEST: usize = 120;

/// A name without characters that change how the text around it looks, and not endless.
pub(crate) fn clean(characters: impl Iterator<Item = char>) -> String {
    let mut name: String = characters
        .take(LONGEST + 1)
        .map(|c| if is_shown(c) { c } else { '?' })
        .collect();
    if let Some((end, _)) = name.char_indices().nth(LONGEST) {
        name.truncate(end);
        name.pop();
        name.push('…');
    }
    name
}

/// Not control characters, ends of lines and paragraphs, and marks that change the direction of text or have no width.
fn is_shown(c: char) -> bool {
    let is_mark = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !is_mark
}

/// Whether a file is the program's, not that of an installed package.
pub(crate) fn is_program(file: &str) -> bool {
    let installed = ["/site-packages/", "/dist-packages/", "/lib/python3"];
    !file.starts_with("<frozen") && !installed.iter().any(|part| file.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_not_endless() {
        assert_eq!(clean("a\nb\u{202e}c\u{7f}".chars()), "a?b?c?");
        assert_eq!(clean("é".repeat(LONGEST).chars()), "é".repeat(LONGEST));
        let cut = clean(core::iter::repeat('é'));
        assert_eq!(cut, format!("{}…", "é".repeat(LONGEST - 1)));
    }

    #[test]
    fn installed_files_are_not_the_programs() {
        assert!(is_program("/home/me/train.py") && is_program("<string>"));
        for file in [
            "/x/lib/python3.12/json/__init__.py",
            "/x/site-packages/torch/_ops.py",
        ] {
            assert!(!is_program(file), "{file}");
        }
        assert!(!is_program("<frozen importlib._bootstrap>"));
    }
}
