//! The page, with its style and program in it.

use gpumem_analyzer::render::{PAGE_BASE, PAGE_STYLE};
use gpumem_capture::Level;
use gpumem_http::{Response, Token};
use gpumem_live::Ask;

/// What all pages have around their bodies.
const FRAME: &str = include_str!("page/frame.html");
const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/live.css");
const FOLDER: &str = include_str!("page/folder.html");
const FOLDER_PROGRAM: [&str; 1] = [include_str!("page/folder.js")];
const PROGRAM: [&str; 6] = [
    include_str!("page/state.js"),
    include_str!("page/head.js"),
    include_str!("page/chart.js"),
    include_str!("page/table.js"),
    include_str!("page/moment.js"),
    include_str!("page/main.js"),
];

/// The page of a capture; `is_within`: of a folder's.
pub(crate) fn page(first: Ask, is_within: bool) -> Response {
    let level = match first.level {
        Some(Level::TENSOR) => "tensor",
        Some(Level::DRIVER) => "driver",
        Some(Level::HOST) => "host",
        Some(Level::PHYSICAL) => "physical",
        _ => "",
    };
    let device = first.device.map_or(String::new(), |of| of.0.to_string());
    let folder = if is_within { "yes" } else { "" };
    let places = [
        ("<!--title-->", "GPU memory, live"),
        ("<!--level-->", level),
        ("<!--device-->", &device),
        ("<!--folder-->", folder),
    ];
    answer(PAGE, &PROGRAM, &places)
}

/// The page of a folder.
pub(crate) fn folder_page() -> Response {
    let title = [("<!--title-->", "GPU memory of ranks, live")];
    answer(FOLDER, &FOLDER_PROGRAM, &title)
}

/// A page as an answer. Only what carries its nonce runs in it, and it can only ask this server.
fn answer(body: &str, program: &[&str], places: &[(&str, &str)]) -> Response {
    let Ok(nonce) = Token::random() else {
        return Response::plain(500, "no random numbers");
    };
    let nonce = nonce.digits();
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let frame = FRAME.replace("<!--body-->", body);
    let mut text = frame.replace("<!--nonce-->", nonce);
    for (place, value) in places {
        text = text.replace(place, value);
    }
    let text = text
        .replace("<!--style-->", &[PAGE_STYLE, STYLE].concat())
        .replace(
            "<!--program-->",
            &[&PAGE_BASE[..], program].concat().concat(),
        );
    Response::new(200, "text/html; charset=utf-8", text).with("content-security-policy", policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_filled_and_names_are_only_text() {
        for answer in [page(Ask::default(), false), folder_page()] {
            let gpumem_http::Body::Whole(bytes) = answer.body else {
                panic!("a page is whole");
            };
            let text = std::str::from_utf8(&bytes).expect("UTF-8");
            assert!(!text.contains("<!--"));
            for unwanted in ["src=", "innerHTML", "@import", "url(", "eval("] {
                assert!(!text.contains(unwanted), "{unwanted}");
            }
        }
    }
}
