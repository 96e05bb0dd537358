//! The page of a capture.

use crate::render::markup::escaped;
use crate::render::palette;
use crate::render::web_page::WebPage;
use crate::views::Page;

/// The page's style.
const STYLE: &str = include_str!("../../../web/src/report/page.css");

fn web_page() -> WebPage {
    WebPage::new(
        include_str!("../../../web/src/report/page.html"),
        &[STYLE, &palette::variables()].concat(),
        include_str!("../../../web/dist/report.js"),
    )
}

/// The whole page.
///
/// # Errors
/// Only if numbers cannot be written as JSON.
pub fn page_html(page: &Page) -> serde_json::Result<String> {
    let data = harmless(&serde_json::to_string(page)?);
    Ok(web_page().filled(&[("data", &data), ("title", &escaped(&page.file))]))
}

/// JSON that cannot end its element or begin a comment: it contains no `<`, `>` or `&`.
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
    fn every_place_is_filled_and_only_its_own_program_runs() {
        web_page().check();
    }
}
