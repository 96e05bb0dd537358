//! For the fuzz target of requests (fuzz/) and the test that runs it on its seeds.

use crate::check::Check;
use crate::{Request, Token};

/// The address of the server that [`judge_request`] checks for.
const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 80);

/// Checks a request whose first line is `METHOD target`, followed by lines `name: value`; `TOKEN` in the target is the
/// server's token. Returns the request if it is for the handler.
///
/// # Panics
/// If a request is accepted that must not be: with another host, without the token or with two, with a path that is to
/// be resolved, or with control characters.
pub fn judge_request(bytes: &[u8]) -> Option<Request> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let token = Token::random().ok()?;
    let first = lines.next()?.replace("TOKEN", token.digits());
    let (method, target) = first.split_once(' ')?;
    let mut request = hyper::Request::builder().method(method).uri(target);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    let request = request.body(()).ok()?;
    let check = Check {
        address: ADDRESS.into(),
        names: vec!["gpu7".into()],
        token: Some(token.clone()),
    };
    let hosts = request.headers().get_all("host").iter().count();
    let accepted = match check.request(&request) {
        Ok(accepted) => accepted,
        Err(refusal) => {
            assert!((400..500).contains(&refusal.status), "{}", refusal.status);
            return None;
        }
    };
    assert_eq!(hosts, 1);
    let host = request.headers()["host"].to_str().expect("a plain host");
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_ours = ["localhost", "gpu7"]
        .iter()
        .any(|ours| name.eq_ignore_ascii_case(ours));
    let address = name
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    let whole = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    let is_loopback = address.or(whole).is_ok_and(|ip| ip.is_loopback());
    assert!(is_ours || is_loopback, "{host:?}");
    let tokens: Vec<_> = accepted
        .query
        .iter()
        .filter(|(name, _)| name == "token")
        .collect();
    assert!(
        tokens.len() == 1 && tokens[0].1 == token.digits(),
        "{tokens:?}"
    );
    let path = &accepted.path;
    assert!(
        path.starts_with('/') && !path.contains("//") && !path.split('/').any(|name| name == ".."),
        "{path}"
    );
    assert!(
        !path.contains(|c: char| c.is_control() || c == '%' || c == '\\'),
        "{path:?}"
    );
    for (name, value) in &accepted.query {
        assert!(
            !(name.clone() + value).contains(char::is_control),
            "{name:?} {value:?}"
        );
    }
    Some(accepted)
}
