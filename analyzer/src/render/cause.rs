//! Why an allocation failed, as text.

use super::{Style, Terminal, bytes};
use crate::replay::Category;
use crate::units::count;
use crate::views::Cause;

/// Columns of text.
const COLUMNS: usize = 80;
/// Columns before a statement.
const LABEL: usize = 16;

/// A statement after its label, wrapped. Words that are longer than a line are not broken.
pub(super) fn statement(label: &str, style: Style, text: &str, terminal: Terminal) -> String {
    let indent = " ".repeat(LABEL);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if LABEL + line.chars().count() + 1 + length <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let blanks = " ".repeat(LABEL.saturating_sub(label.chars().count()));
    let text = lines.join(&format!("\n{indent}"));
    format!("{}{blanks}{text}\n", terminal.paint(style, label))
}

/// The cause with possible remedies, and the lines that held most: two statements.
pub fn cause_text(cause: &Cause, terminal: Terminal) -> String {
    let advice = cause.advice.iter().map(|advice| format!(" → {advice}"));
    let text = cause.statement() + &advice.collect::<String>();
    let mut out = statement("cause", Style::Bad, &text, terminal);
    if cause.owners.is_empty() {
        return out;
    }
    let mut categories = cause.owners.iter().flat_map(|of| &of.categories);
    let are_told_apart = categories.any(|of| of.category.is_specific());
    let owners = cause.owners.iter().map(|of| {
        let function = match of.function.as_str() {
            "" => String::new(),
            function => format!(" {function}"),
        };
        let blocks = match &of.categories[..] {
            _ if !are_told_apart => count(of.blocks),
            [] => count(of.blocks),
            [only] if only.category == Category::Workspace => count(of.blocks),
            [only] => format!("{}, {}", only.category.name(), count(of.blocks)),
            [most, ..] => format!("mostly {}, {}", most.category.name(), count(of.blocks)),
        };
        // A figure is not separated from its unit or its line.
        let bytes = bytes(of.bytes).replace(' ', "\u{a0}");
        let blocks = blocks.replace(' ', "\u{a0}");
        format!("{bytes}\u{a0}{}{function} ({blocks})", of.line)
    });
    let owners: Vec<String> = owners.collect();
    let text = format!(
        "{} of {} live",
        owners.join(", "),
        bytes(cause.live_bytes).replace(' ', "\u{a0}")
    );
    let text = statement("held then", Style::Strong, &text, terminal);
    out.push_str(&text.replace('\u{a0}', " "));
    out
}

/// The beginning of the cause in one line: the last line of a report, which is what a terminal shows of a long one.
pub fn last_line(cause: &Cause, terminal: Terminal) -> String {
    let text = cause.statement();
    let room = COLUMNS - LABEL;
    let line = match text.chars().count() > room {
        true => {
            let cut: String = text.chars().take(room - 1).collect();
            let end = cut.rfind(' ').unwrap_or(cut.len());
            format!("{}…", cut.get(..end).unwrap_or(&cut))
        }
        false => text,
    };
    statement("OUT OF MEMORY", Style::Bad, &line, terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_wrapped_behind_its_word() {
        let long = "word ".repeat(40);
        let text = statement("cause", Style::Bad, long.trim(), Terminal::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 4 && lines[0].starts_with("cause           word word"));
        assert!(
            lines[1..]
                .iter()
                .all(|line| line.starts_with("                word"))
        );
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
        let path = "x".repeat(200);
        let text = statement("cause", Style::Bad, &path, Terminal::PLAIN);
        assert_eq!(
            text,
            format!("cause           {path}\n"),
            "a path stays whole"
        );
    }
}
