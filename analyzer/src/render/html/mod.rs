//! The page: one file, with its style, its program and its numbers in it. It asks for nothing else, and a
//! browser is told to refuse if it did.

use crate::views::Page;

const PAGE: &str = include_str!("page.html");
/// The style of all pages.
pub const STYLE: &str = include_str!("page.css");
/// Numbers, elements and ticks, of all pages.
pub const BASE: [&str; 2] = [include_str!("base.js"), include_str!("ticks.js")];
const PROGRAM: [&str; 7] = [
    BASE[0],
    BASE[1],
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
    let styles = [STYLE, &super::palette::variables()];
    Ok(filled(PAGE, &styles, &PROGRAM, &data, &page.file))
}

/// A page with its places filled. `data` must be such that it cannot end the element that it stands in.
pub(super) fn filled(
    page: &str,
    styles: &[&str],
    program: &[&str],
    data: &str,
    title: &str,
) -> String {
    let mut out = String::with_capacity(page.len() + data.len() + (64 << 10));
    // What is put in is not looked through for places.
    for piece in page.split_inclusive("-->") {
        match piece.split_once("<!--gpumem:") {
            Some((before, place)) => {
                out.push_str(before);
                match place {
                    "style-->" => styles.iter().for_each(|part| out.push_str(part)),
                    "program-->" => program.iter().for_each(|part| out.push_str(part)),
                    "data-->" => out.push_str(data),
                    "title-->" => out.push_str(&escaped(title)),
                    _ => {}
                }
            }
            None => out.push_str(piece),
        }
    }
    out
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
pub(super) fn is_filled_and_fetches_nothing(page: &str, styles: &[&str], program: &[&str]) {
    for place in ["style", "program", "data", "title"] {
        assert_eq!(page.matches(&format!("<!--gpumem:{place}-->")).count(), 1);
    }
    let all = [&[page], styles, program].concat().concat();
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
        is_filled_and_fetches_nothing(PAGE, &[STYLE], &PROGRAM);
    }
}
