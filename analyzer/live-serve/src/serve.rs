//! The server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gpumem_capture::{OpenError, Reader};
use gpumem_http::{Options, Request, Response, Server, StartError, Token};
use gpumem_live::{Ask, Watch};

use crate::hub::Hub;
use crate::page::page;
use crate::pump::Pump;
use crate::view::View;

/// How often the capture is looked at.
const EVERY: Duration = Duration::from_millis(100);

/// Why nothing is served.
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

/// A capture's page and figures, served until this is dropped.
pub struct LiveServer {
    // In this order: no reader comes once the pump ends.
    server: Server,
    _pump: Pump,
}

impl LiveServer {
    /// Serves the capture at `path` on a loopback address; `ask`: what a page begins with.
    ///
    /// # Errors
    /// Where the capture cannot be opened, or the address not bound.
    pub fn start(path: &Path, ask: Ask, address: SocketAddr) -> Result<Self, ServeError> {
        let started_wall_ns = Reader::open(path)?.header().started_wall_ns;
        let watch = Watch::start(path, ask, EVERY)?;
        let hub = Arc::new(Hub::default());
        let mut options = Options::new(address);
        options.token = Some(Token::random().map_err(ServeError::Token)?);
        let readers = hub.clone();
        let server = Server::start(options, move |request| answer(request, ask, &readers))?;
        Ok(Self {
            server,
            _pump: Pump::start(watch, hub, started_wall_ns),
        })
    }

    /// What to open in a browser.
    pub fn url(&self) -> String {
        self.server.url("/")
    }
}

fn answer(request: &Request, first: Ask, hub: &Hub) -> Response {
    match request.path.as_str() {
        "/" => page(first),
        "/events" if request.is_head => Response::new(200, EVENTS, ""),
        "/events" => match View::of(request, first) {
            Ok(view) => match hub.join(view) {
                Some(stream) => Response::stream(EVENTS, stream),
                None => Response::plain(503, "16 readers look already"),
            },
            Err(refusal) => refusal,
        },
        _ => Response::not_found(),
    }
}

const EVENTS: &str = "text/event-stream";
