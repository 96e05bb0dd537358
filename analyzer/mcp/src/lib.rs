//! A Model Context Protocol server over captures, on standard input and output.
//!
//! # Design constraints
//! - Nothing is written, and only files below the server's folders are read. The names of sources and libraries in a
//!   capture do not extend this.
//! - An answer has at most [`MOST`] bytes. Figures equal those of the analyzer's commands, to the byte.
//! - Standard output carries only the protocol.
//! - Memory is bounded: only a few captures and answers are cached.
//!
//! # Not suitable for
//! - Networks: any process that can write to its input can read the folders.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod account;
mod cancel;
mod capture;
mod catalog;
mod context;
mod cursor;
mod fit;
mod found;
#[doc(hidden)]
pub mod fuzzing;
mod gpumem;
mod questions;
mod refusal;
mod roots;
mod selection;
mod server;
mod sessions;
mod tools;

use std::path::PathBuf;

use rmcp::ServiceExt as _;
use rmcp::transport::stdio;

use cancel::Cancel;
use context::Context;
use gpumem::Gpumem;
use roots::Roots;
use server::Server;
use sessions::Sessions;

pub use fit::MOST;
pub use refusal::Refusal;

/// The options of a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folders whose files may be named; if empty, the current folder.
    pub roots: Vec<PathBuf>,
    /// The Python that has the package gpumem, for `whatif` and `plan`.
    pub python: Option<PathBuf>,
    /// Whether `plan` may run programs.
    pub runs_programs: bool,
}

/// Why a server ended unexpectedly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A folder cannot be read.
    #[error(transparent)]
    Roots(#[from] Refusal),
    /// The system refused a resource.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// The client did not speak the protocol.
    #[error(
        "{0}: a client of the Model Context Protocol starts this server and talks to it on standard input"
    )]
    Protocol(String),
}

/// Serves on standard input and output until that is closed.
///
/// # Errors
/// A folder cannot be read, or the other side is not an MCP client.
pub fn serve(options: Options) -> Result<(), Error> {
    let context = Context {
        roots: Roots::new(&options.roots)?,
        sessions: Sessions::default(),
        gpumem: options
            .python
            .map(|python| Gpumem::new(python, options.runs_programs)),
        cancel: Cancel::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = Server::new(context).serve(stdio()).await;
        let running = server.map_err(|error| Error::Protocol(error.to_string()))?;
        let ended = running.waiting().await;
        ended
            .map(drop)
            .map_err(|error| Error::Protocol(error.to_string()))
    })
}
