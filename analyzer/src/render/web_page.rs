//! Pages for a browser: one file each, with its style, program and data. The sources are in `web/`.
//!
//! A page fetches nothing, and its policy makes the browser block requests. Only the page's own style and program are
//! permitted, by their hashes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The style of all pages.
const STYLE: &str = include_str!("../../../web/src/lib/page.css");

/// A page with placeholders.
#[derive(Clone, Debug)]
pub struct WebPage {
    html: String,
    style: String,
    program: &'static str,
}

impl WebPage {
    /// A page of this markup and program. `style` is appended to the style of all pages.
    pub fn new(html: impl Into<String>, style: &str, program: &'static str) -> Self {
        Self {
            html: html.into(),
            style: [STYLE, style].concat(),
            program,
        }
    }

    /// The page's Content-Security-Policy. `more`: additional directives.
    pub fn policy(&self, more: &str) -> String {
        format!(
            "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'{more}",
            source(&self.style),
            source(self.program)
        )
    }

    /// The page with its placeholders filled: `<!--gpumem:NAME-->` by the text of NAME in `places`, and the policy,
    /// style and program. The texts must not contain the end of the element around them.
    pub fn filled(&self, places: &[(&str, &str)]) -> String {
        let policy = self.policy("");
        let own = [
            ("policy", policy.as_str()),
            ("style", &self.style),
            ("program", self.program),
        ];
        let of = |name: &str| {
            let mut all = own.iter().chain(places);
            all.find(|(of, _)| *of == name).map_or("", |(_, text)| text)
        };
        let room: usize = own.iter().chain(places).map(|(_, text)| text.len()).sum();
        let mut out = String::with_capacity(self.html.len() + room);
        // Placeholders in the inserted texts are not filled.
        for piece in self.html.split_inclusive("-->") {
            match piece.split_once("<!--gpumem:") {
                Some((before, place)) => {
                    out.push_str(before);
                    out.push_str(of(place.trim_end_matches("-->")));
                }
                None => out.push_str(piece),
            }
        }
        out
    }
}

/// The source expression of an inline style or program in a policy.
fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
impl WebPage {
    /// Checks that each placeholder exists once, that nothing is fetched, and that only the page's own code may run.
    pub(super) fn check(&self) {
        for place in ["policy", "style", "program", "data", "title"] {
            let place = format!("<!--gpumem:{place}-->");
            assert_eq!(self.html.matches(&place).count(), 1, "{place}");
        }
        let page = self.filled(&[("data", "{}"), ("title", "title")]);
        // The method `html` of d3-selection, which no page calls: the linter forbids it.
        let own = page
            .replace("this.innerHTML", "")
            .replace("this.node().innerHTML", "");
        for unwanted in [
            "src=",
            "style=",
            "@import",
            "url(",
            "fetch(",
            "XMLHttp",
            "import(",
            "innerHTML",
            "eval(",
            "unsafe",
            "<!--",
        ] {
            assert!(!own.contains(unwanted), "{unwanted}");
        }
        // Names of namespaces.
        let links = page.replace("http://www.w3.org/", "");
        assert!(!links.contains("://"));
        let between = |before: &str, after: &str| {
            let (_, rest) = page.split_once(before).expect(before);
            rest.split_once(after).expect(after).0.to_owned()
        };
        let policy = between("Content-Security-Policy\" content=\"", "\">");
        assert_eq!(policy, self.policy(""));
        let style = source(&between("<style>", "</style>"));
        let program = source(&between("<script>", "</script>"));
        assert!(policy.contains(&format!("; style-src {style}; script-src {program};")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_its_hash() {
        // printf 'doSomething();' | openssl dgst -sha256 -binary | base64
        assert_eq!(
            source("doSomething();"),
            "'sha256-RFWPLDbv2BY+rCkDzsE+0fr8ylGr2R2faWMhq4lfEQc='"
        );
    }

    #[test]
    fn places_in_what_is_put_in_are_not_filled() {
        let page = WebPage::new("<p><!--gpumem:a--></p><!--gpumem:b-->", "", "");
        let filled = page.filled(&[("a", "<!--gpumem:b-->"), ("b", "x")]);
        assert_eq!(filled, "<p><!--gpumem:b--></p>x");
    }

    #[test]
    fn another_program_has_another_policy() {
        let policy = |program| WebPage::new("", "", program).policy("; img-src data:");
        assert_ne!(policy("a"), policy("b"));
        assert!(policy("a").ends_with("; form-action 'none'; img-src data:"));
    }
}
