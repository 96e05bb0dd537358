//! Text and names in Markdown for GitHub and GitLab: none of their characters is read as markup.

use gpumem_capture::text as safe;

/// Characters with a meaning in Markdown or HTML, in tables or at the start of a line.
const SPECIAL: &str = "&<>\"'`|*_[]()\\~#!{}^$";

/// A name as code; as HTML if backticks do not suffice.
pub fn code(name: &str) -> String {
    let shown = safe::clean(name);
    let is_held = !shown.contains(['`', '|', '<', '>', '&', '\\'])
        && !shown.is_empty()
        && shown.trim() == shown;
    match is_held {
        true => format!("`{shown}`"),
        false => html_code(name),
    }
}

/// A name as code within HTML, where Markdown is not always parsed.
pub fn html_code(name: &str) -> String {
    format!("<code>{}</code>", escaped(&safe::clean(name)))
}

/// Plain text on one line. Mentions in it do not cause notifications.
pub fn text(text: &str) -> String {
    escaped(&safe::clean(text)).replace('@', "@\u{200b}")
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match SPECIAL.contains(c) {
            true => out.push_str(&format!("&#{};", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stand_in_backticks() {
        assert_eq!(code("src/train_2.py:53"), "`src/train_2.py:53`");
    }

    #[test]
    fn names_cannot_leave_their_place() {
        assert_eq!(
            code("a|b`<script>&*.py"),
            "<code>a&#124;b&#96;&#60;script&#62;&#38;&#42;.py</code>"
        );
        // Each of them alone, too.
        for special in ["`", "|", "<", ">", "&", "\\"] {
            let shown = code(&format!("a{special}b"));
            assert!(shown.starts_with("<code>a&#"), "{shown}");
        }
        assert_eq!(code(" a"), "<code> a</code>");
        assert_eq!(code(""), "<code></code>");
        assert_eq!(
            html_code("</code></details>"),
            "<code>&#60;/code&#62;&#60;/details&#62;</code>"
        );
        assert!(!code("a\nb\u{202e}").contains(['\n', '\u{202e}']));
        assert_eq!(
            text("see [x](y) @all\n# 1"),
            "see &#91;x&#93;&#40;y&#41; @\u{200b}all\u{fffd}&#35; 1"
        );
    }
}
