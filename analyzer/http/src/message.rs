//! Requests that passed the checks, and the responses.

use bytes::Bytes;
use hyper::HeaderMap;

use crate::body::Stream;

/// A request for a handler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The path. It has ASCII letters, digits and `/_.-` only, and no `..` or `//`.
    pub path: String,
    /// The query's pairs, decoded, in order. They contain no control characters.
    pub query: Vec<(String, String)>,
    /// The request headers.
    pub headers: HeaderMap,
    /// Whether only the response headers are requested.
    pub is_head: bool,
}

impl Request {
    /// The first value of this name in the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        let named = self.query.iter().find(|(of, _)| of == name);
        named.map(|(_, value)| value.as_str())
    }
}

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// A complete body.
    Whole(Bytes),
    /// Chunks that are sent over time.
    Stream(Stream),
}

/// A response.
#[derive(Debug)]
pub struct Response {
    /// The status code. A code that is not a final HTTP status is sent as 500.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// More headers, such as `Content-Security-Policy`. A header that cannot be sent changes the response to a 500.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Body,
}

impl Response {
    /// A response with a complete body.
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            content_type,
            headers: Vec::new(),
            body: Body::Whole(body.into()),
        }
    }

    /// A response that is sent in chunks.
    pub fn stream(content_type: &'static str, stream: Stream) -> Self {
        Self {
            status: 200,
            content_type,
            headers: Vec::new(),
            body: Body::Stream(stream),
        }
    }

    /// A response with one line of text.
    pub fn plain(status: u16, line: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{line}\n"))
    }

    /// The response for an unknown path.
    pub fn not_found() -> Self {
        Self::plain(404, "not found")
    }

    /// Adds a header to the response.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}
