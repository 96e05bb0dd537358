//! The server.

use std::net::SocketAddr;
use std::path::Path;

use crate::frames::Ask;
use gpumem_capture::OpenError;
use gpumem_http::{Options, Request, Response, Server, StartError, Token};

use super::folder::ServedFolder;
use super::moments::Moments;
use super::served::Served;

/// Why serving does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The capture cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system has no random numbers for a token.
    #[error("no random numbers: {0}")]
    Token(std::io::Error),
}

/// Serves a capture's page and figures, or those of a folder's captures, until it is dropped.
pub struct LiveServer {
    server: Server,
}

/// The served capture or folder.
enum Site {
    Capture(Served),
    Folder(Box<ServedFolder>),
}

impl LiveServer {
    /// Serves the capture at `path`, or the captures of the folder there, on a loopback address; `ask`: the first
    /// request of a page.
    ///
    /// # Errors
    /// If the capture cannot be opened, or the address cannot be bound.
    pub fn start(path: &Path, ask: Ask, address: SocketAddr) -> Result<Self, ServeError> {
        let site = match path.is_dir() {
            true => Site::Folder(Box::new(ServedFolder::new(path))),
            false => Site::Capture(Served::start(path, ask)?),
        };
        let options = options(address)?;
        let moments = Moments::default();
        let server = Server::start(options, move |request| {
            answer(request, ask, &site, &moments)
        })?;
        Ok(Self { server })
    }

    /// The URL to open in a browser.
    pub fn url(&self) -> String {
        self.server.url("/")
    }
}

/// The server's limits are its defaults.
fn options(address: SocketAddr) -> Result<Options, ServeError> {
    let mut options = Options::new(address);
    options.token = Some(Token::random().map_err(ServeError::Token)?);
    Ok(options)
}

fn answer(request: &Request, first: Ask, site: &Site, moments: &Moments) -> Response {
    match site {
        Site::Capture(served) => {
            let below = request.path.strip_prefix('/').unwrap_or_default();
            served.answer((request, below), first, (moments, None))
        }
        Site::Folder(folder) => folder.answer(request, first, moments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What they do has its tests in the server's crate, with these values.
    #[test]
    fn the_limits_are_those_of_the_documentation() {
        let options = options(([127, 0, 0, 1], 0).into()).expect("random numbers");
        assert!(options.token.is_some() && !options.allow_remote);
        let limits = options.limits;
        assert_eq!((limits.connections, limits.head_bytes), (64, 16 << 10));
        let seconds = [limits.head_time, limits.answer_time].map(|time| time.as_secs());
        assert_eq!(seconds, [10, 30]);
    }
}
