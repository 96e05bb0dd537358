//! The page: one file, with its style, its program and its numbers in it. It asks for nothing else, and a
//! browser is told to refuse if it did.

use crate::views::Page;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const PROGRAM: [&str; 6] = [
    include_str!("base.js"),
    include_str!("state.js"),
    include_str!("chart.js"),
    include_str!("flame.js"),
    include_str!("tables.js"),
    include_str!("main.js"),
];

/// The whole page.
///
/// # Errors
/// Only if numbers cannot be written as JSON.
pub fn page_html(page: &Page) -> serde_json::Result<String> {
    let data = harmless(&serde_json::to_string(page)?);
    let mut out = String::with_capacity(PAGE.len() + STYLE.len() + data.len() + (64 << 10));
    // What is put in is not looked through for places.
    for piece in PAGE.split_inclusive("-->") {
        match piece.split_once("<!--gpumem:") {
            Some((before, place)) => {
                out.push_str(before);
                match place {
                    "style-->" => out.push_str(STYLE),
                    "program-->" => PROGRAM.iter().for_each(|part| out.push_str(part)),
                    "data-->" => out.push_str(&data),
                    "title-->" => out.push_str(&escaped(&page.file)),
                    _ => {}
                }
            }
            None => out.push_str(piece),
        }
    }
    Ok(out)
}

/// JSON that cannot end the element it stands in, nor begin a comment: no `<`, `>` or `&` is left in it.
fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

/// Text between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_data() {
        let hostile = r#"</script><script>alert(1)</script><!-- "' & -->"#;
        let json = harmless(&serde_json::to_string(hostile).expect("JSON"));
        assert!(!json.contains(['<', '>', '&']), "{json}");
        let back: String = serde_json::from_str(&json).expect("JSON");
        assert_eq!(back, hostile);
    }

    #[test]
    fn every_place_is_filled_and_nothing_is_fetched() {
        for place in ["style", "program", "data", "title"] {
            assert_eq!(PAGE.matches(&format!("<!--gpumem:{place}-->")).count(), 1);
        }
        let all = [&[PAGE, STYLE][..], &PROGRAM].concat().concat();
        for outside in [
            "src=",
            "@import",
            "url(",
            "fetch(",
            "XMLHttp",
            "import(",
            "innerHTML",
        ] {
            assert!(!all.contains(outside), "{outside}");
        }
        let links = all.replace("http://www.w3.org/2000/svg", "");
        assert!(!links.contains("://"));
    }
}
