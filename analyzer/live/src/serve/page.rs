//! The pages, with their styles and programs embedded.

use crate::frames::Ask;
use gpumem_analyzer::render::WebPage;
use gpumem_capture::Level;
use gpumem_http::Response;

/// The frame around the bodies of both pages.
const FRAME: &str = include_str!("../../../../web/src/lib/served.html");
const STYLE: &str = include_str!("../../../../web/src/live/page.css");
/// Additional permissions of a served page: requests to this server. No other page may embed it.
const POLICY: &str = "; connect-src 'self'; img-src data:; frame-ancestors 'none'";

/// The page of a capture; `is_within`: opened from a folder's page.
pub(super) fn page(first: Ask, is_within: bool) -> Response {
    let level = first.level.map_or("", Level::name);
    let device = first.device.map_or(String::new(), |of| of.0.to_string());
    let places = [
        ("title", "GPU memory, live"),
        ("level", level),
        ("device", &device),
        ("folder", if is_within { "yes" } else { "" }),
    ];
    let body = include_str!("../../../../web/src/live/page.html");
    answer(body, include_str!("../../../../web/dist/live.js"), &places)
}

/// The page of a folder.
pub(super) fn folder_page() -> Response {
    let title = [("title", "GPU memory of ranks, live")];
    let body = include_str!("../../../../web/src/folder/page.html");
    answer(body, include_str!("../../../../web/dist/folder.js"), &title)
}

/// A page as a response.
fn answer(body: &str, program: &'static str, places: &[(&str, &str)]) -> Response {
    let page = WebPage::new(FRAME.replace("<!--gpumem:body-->", body), STYLE, program);
    Response::new(200, "text/html; charset=utf-8", page.filled(places))
        .with("content-security-policy", page.policy(POLICY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_filled_and_names_are_only_text() {
        for answer in [page(Ask::default(), false), folder_page()] {
            let mut headers = answer.headers.iter();
            let policy = headers.find(|(name, _)| *name == "content-security-policy");
            let (_, policy) = policy.expect("a policy");
            assert!(
                policy.contains("; style-src 'sha256-") && policy.contains("; script-src 'sha256-")
            );
            assert!(policy.ends_with(POLICY) && !policy.contains("unsafe"));
            let gpumem_http::Body::Whole(bytes) = answer.body else {
                panic!("a page is whole");
            };
            let text = std::str::from_utf8(&bytes).expect("UTF-8");
            assert!(!text.contains("<!--"));
            for unwanted in [
                "src=",
                "style=",
                "innerHTML",
                "@import",
                "url(",
                "eval(",
                "unsafe",
            ] {
                assert!(!text.contains(unwanted), "{unwanted}");
            }
            assert!(text.contains("<style>:root") && text.contains("<script>// Generated"));
        }
    }
}
