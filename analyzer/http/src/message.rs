//! Requests that passed the checks, and the answers to them.

use bytes::Bytes;
use hyper::HeaderMap;

use crate::body::Stream;

/// A request as a handler sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The path. It has ASCII letters, digits and `/_.-` only, and no `..` or `//`.
    pub path: String,
    /// The query's pairs, decoded, in their order. No text has control characters.
    pub query: Vec<(String, String)>,
    /// The head's fields.
    pub headers: HeaderMap,
    /// Whether only the answer's head is asked for.
    pub is_head: bool,
}

impl Request {
    /// The first value of this name in the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        let named = self.query.iter().find(|(of, _)| of == name);
        named.map(|(_, value)| value.as_str())
    }
}

/// What is sent after the head.
#[derive(Debug)]
pub enum Body {
    /// Bytes that are all there.
    Whole(Bytes),
    /// Pieces that come as time goes.
    Stream(Stream),
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    /// The status code. One that is no final code of HTTP is sent as 500.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// More fields of the head, as `Content-Security-Policy`. One that cannot be sent makes the answer a 500.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Body,
}

impl Response {
    /// An answer that is all there.
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            content_type,
            headers: Vec::new(),
            body: Body::Whole(body.into()),
        }
    }

    /// An answer that comes piece by piece.
    pub fn stream(content_type: &'static str, stream: Stream) -> Self {
        Self {
            status: 200,
            content_type,
            headers: Vec::new(),
            body: Body::Stream(stream),
        }
    }

    /// A line for people.
    pub fn plain(status: u16, line: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{line}\n"))
    }

    /// There is nothing at this path.
    pub fn not_found() -> Self {
        Self::plain(404, "not found")
    }

    /// The same answer with one more field in its head.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}
