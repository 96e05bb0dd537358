//! A small HTTP/1.1 server for local use.
//!
//! ```no_run
//! use gpumem_http::{Options, Response, Server};
//!
//! let options = Options::new(([127, 0, 0, 1], 0).into());
//! let server = Server::start(options, |request| match request.path.as_str() {
//!     "/" => Response::new(200, "text/plain; charset=utf-8", "Hello.\n"),
//!     _ => Response::not_found(),
//! })?;
//! println!("{}", server.url("/"));
//! # Ok::<(), gpumem_http::StartError>(())
//! ```
//!
//! # Design constraints
//! - Only GET and HEAD without a body. Other requests are refused before the handler.
//! - Only a request whose `Host` is this server's address or an allowed name is answered, so a foreign page
//!   cannot read answers by DNS rebinding. There is no CORS header.
//! - Time, connections and bytes of a request are bounded: [`Limits`].
//! - An address that other machines can reach is refused unless the caller allows it.
//!
//! # Not suitable for
//! Uploads, TLS, the open internet.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod body;
mod check;
#[doc(hidden)]
pub mod fuzzing;
mod message;
mod options;
mod server;
mod timed;
mod token;

pub use body::{Closed, Sender, Stream, stream};
pub use message::{Body, Request, Response};
pub use options::{Limits, Options};
pub use server::{Server, StartError};
pub use token::Token;
