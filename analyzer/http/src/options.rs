//! The options of a server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::token::Token;

/// Options of a server: its address, and which requests it accepts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The address. Port 0: the system chooses one.
    pub address: SocketAddr,
    /// Whether the address may be one that other machines can reach. Default: such an address is
    /// refused.
    pub allow_remote: bool,
    /// Names that `Host` may have in addition to the address and `localhost`. Default: empty.
    pub names: Vec<String>,
    /// The query parameter `token` that each request must have. Default: not required.
    pub token: Option<Token>,
    /// Limits.
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

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once; further ones are answered with 503 and closed. Default: 64.
    pub connections: usize,
    /// Bytes of a request's headers. Default: 16 KiB; never below 8 KiB.
    pub head_bytes: usize,
    /// Time to send a request's headers, from the connection or from the previous response.
    /// Default: 10 s.
    pub head_time: Duration,
    /// Time to receive a response, or one chunk of a stream. Default: 30 s.
    pub answer_time: Duration,
    /// Handlers that run at once; further requests wait. Default: 4.
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
