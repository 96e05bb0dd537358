//! Checks of requests, before a handler gets them.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::{HeaderMap, Method};

use crate::message::{Request, Response};
use crate::token::Token;

/// The requirements of each request.
pub(crate) struct Check {
    pub(crate) address: SocketAddr,
    pub(crate) names: Vec<String>,
    pub(crate) token: Option<Token>,
}

impl Check {
    /// The request for the handler, or the refusal.
    pub(crate) fn request<B>(&self, request: &hyper::Request<B>) -> Result<Request, Response> {
        let (uri, headers) = (request.uri(), request.headers());
        if uri.authority().is_some() || uri.scheme().is_some() {
            return Err(Response::plain(400, "a path is expected, not a URL"));
        }
        self.host(headers)?;
        let is_head = match *request.method() {
            Method::GET => false,
            Method::HEAD => true,
            _ => {
                let refusal = Response::plain(405, "only GET and HEAD are allowed");
                return Err(refusal.with("allow", "GET, HEAD"));
            }
        };
        let has_length = |value: &hyper::header::HeaderValue| value.as_bytes() != b"0";
        let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
        if lengths.any(has_length) || headers.contains_key(TRANSFER_ENCODING) {
            return Err(Response::plain(413, "a request must not have a body"));
        }
        if !is_plain(uri.path()) {
            return Err(Response::plain(400, "the path is not valid"));
        }
        let query = query(uri.query().unwrap_or_default())?;
        self.token(&query)?;
        Ok(Request {
            path: uri.path().to_owned(),
            query,
            headers: headers.clone(),
            is_head,
        })
    }

    /// Checks that `Host` names this server. Its port is not compared, because the far end of a
    /// tunnel has another one.
    fn host(&self, headers: &HeaderMap) -> Result<(), Response> {
        let mut all = headers.get_all(HOST).iter();
        let (Some(host), None) = (all.next(), all.next()) else {
            return Err(Response::plain(400, "one Host header is expected"));
        };
        match host.to_str().ok().and_then(name_of) {
            Some(name) if self.is_ours(&name) => Ok(()),
            _ => Err(Response::plain(421, "the Host header names another host")),
        }
    }

    fn is_ours(&self, name: &str) -> bool {
        let bound = self.address.ip();
        if let Ok(ip) = name.parse::<IpAddr>() {
            // DNS rebinding cannot use an address. A server on an unspecified address accepts any
            // address.
            return ip == bound
                || bound.is_unspecified()
                || bound.is_loopback() && ip.is_loopback();
        }
        let is_local = bound.is_loopback() || bound.is_unspecified();
        let mut names = self.names.iter();
        is_local && name.eq_ignore_ascii_case("localhost")
            || names.any(|ours| ours.eq_ignore_ascii_case(name))
    }

    fn token(&self, query: &[(String, String)]) -> Result<(), Response> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let mut given = query.iter().filter(|(name, _)| name == "token");
        match (given.next(), given.next()) {
            (Some((_, given)), None) if token.is(given) => Ok(()),
            _ => {
                let line = "open the whole URL that was printed, with its token";
                Err(Response::plain(403, line))
            }
        }
    }
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn name_of(host: &str) -> Option<String> {
    let authority: hyper::http::uri::Authority = host.parse().ok()?;
    if host.contains('@') {
        return None;
    }
    let name = authority.host();
    // The parser accepts `[::1]280`.
    let port = host.strip_prefix(name)?;
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return None;
    }
    let inside = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    Some(inside.unwrap_or(name).to_owned())
}

/// Whether a path is one that this server could have: it needs no decoding or resolving.
fn is_plain(path: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.-".contains(&byte);
    path.starts_with('/')
        && path.bytes().all(is_usual)
        && !path.contains("//")
        && !path.split('/').any(|part| part == "." || part == "..")
}

/// The pairs of a query.
fn query(text: &str) -> Result<Vec<(String, String)>, Response> {
    let pairs = form_urlencoded::parse(text.as_bytes()).into_owned();
    let pairs: Vec<(String, String)> = pairs.collect();
    let is_odd = |text: &String| text.chars().any(|c| c.is_control() || c == '\u{fffd}');
    if pairs
        .iter()
        .any(|(name, value)| is_odd(name) || is_odd(value))
    {
        return Err(Response::plain(400, "the query has control characters"));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::{Check, is_plain, name_of};

    fn check(address: &str, names: &[&str]) -> Check {
        Check {
            address: address.parse().unwrap(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            token: None,
        }
    }

    #[test]
    fn a_loopback_server_answers_loopback_names_only() {
        let local = check("127.0.0.1:80", &["gpu7"]);
        for ours in ["127.0.0.1", "localhost", "LOCALHOST", "::1", "GPU7"] {
            assert!(local.is_ours(ours), "{ours}");
        }
        for other in ["evil.example", "10.0.0.1", "localhost.evil", ""] {
            assert!(!local.is_ours(other), "{other}");
        }
    }

    #[test]
    fn a_server_on_one_address_answers_that_address() {
        let remote = check("10.0.0.1:80", &[]);
        assert!(remote.is_ours("10.0.0.1"));
        assert!(!remote.is_ours("localhost") && !remote.is_ours("10.0.0.2"));
        let everywhere = check("0.0.0.0:80", &[]);
        assert!(everywhere.is_ours("10.0.0.2") && everywhere.is_ours("localhost"));
        assert!(!everywhere.is_ours("evil.example"));
    }

    #[test]
    fn a_port_is_no_part_of_the_name() {
        assert_eq!(name_of("localhost:80").as_deref(), Some("localhost"));
        assert_eq!(name_of("[::1]:80").as_deref(), Some("::1"));
        assert_eq!(name_of("a@localhost"), None);
        assert_eq!(name_of("[::1]280"), None);
        assert_eq!(name_of("local host"), None);
    }

    #[test]
    fn a_path_needs_no_decoding() {
        assert!(is_plain("/") && is_plain("/a/b.json"));
        for odd in [
            "*", "/..", "/a/../b", "/.", "//a", "/%2e%2e", "/a%00", "/a\\b", "/ä",
        ] {
            assert!(!is_plain(odd), "{odd}");
        }
    }
}
