//! What a server is started with.

use std::net::SocketAddr;
use std::time::Duration;

use crate::token::Token;

/// Where a server listens, and whom it answers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The address. Port 0: the system chooses one.
    pub address: SocketAddr,
    /// Whether an address that other machines can reach is meant. Default: no, it is refused.
    pub allow_remote: bool,
    /// Names that `Host` may have beside the address and `localhost`. Default: none.
    pub names: Vec<String>,
    /// The query parameter `token` that each request must have. Default: none is needed.
    pub token: Option<Token>,
    /// Bounds.
    pub limits: Limits,
}

impl Options {
    /// The defaults, on this address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            allow_remote: false,
            names: Vec::new(),
            token: None,
            limits: Limits::default(),
        }
    }
}

/// What one server takes at most.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once; one more is answered with 503 and closed. Default: 64.
    pub connections: usize,
    /// Bytes of a request's head. Default: 16 KiB; never below 8 KiB.
    pub head_bytes: usize,
    /// Time to send a request's head, from the connection or from the answer before. Default: 10 s.
    pub head_time: Duration,
    /// Time to take an answer, or one piece of a stream. Default: 30 s.
    pub answer_time: Duration,
    /// Handlers that run at once; more requests wait. Default: 4.
    pub handlers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head_bytes: 16 << 10,
            head_time: Duration::from_secs(10),
            answer_time: Duration::from_secs(30),
            handlers: 4,
        }
    }
}
