//! Text in XML and HTML.

use gpumem_capture::text;

/// Text between tags or in a quoted attribute: none of its characters is markup, or invalid in XML.
pub(super) fn escaped(text: &str) -> String {
    let text = text::clean_lines(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_text() {
        assert_eq!(
            escaped("</text>&\"\u{1b}\u{ffff}"),
            "&lt;/text&gt;&amp;&quot;\u{fffd}\u{fffd}"
        );
    }
}
