//! The exporter's server and its search for captures.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpumem_http::{Request, Response, Server, StartError};

use crate::captures::{Captures, Limits};
use crate::family::Families;
use crate::find::{BadPattern, Patterns};
use crate::metrics::{Ask, metrics};
use crate::otlp::{Push, PushError};
use crate::text::{Format, text};

/// The page of the root, which links to the metrics.
const PAGE: &str = "<!doctype html>\n<title>gpumem exporter</title>\n<h1>gpumem exporter</h1>\n\
     <p><a href=\"/metrics\">/metrics</a> · <a href=\"/healthz\">/healthz</a></p>\n";

/// The options of an exporter.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Whether the address may be one that other machines can reach.
    pub allow_remote: bool,
    /// Names that a request's `Host` may have, in addition to the address.
    pub host_names: Vec<String>,
    /// Files, folders or patterns.
    pub captures: Vec<String>,
    /// The most captures that are followed.
    pub max_captures: usize,
    /// How long an ended capture stays.
    pub keep: Duration,
    /// The interval of searching for captures and reading them.
    pub every: Duration,
    /// The number of lines of each capture.
    pub lines: usize,
    /// A collector's base URL.
    pub otlp: Option<String>,
    /// The interval of pushes to it.
    pub otlp_every: Duration,
}

/// Why the exporter does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pattern is invalid.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    /// Pushing to the collector cannot start.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A running exporter.
pub struct Exporter {
    server: Server,
    patterns: Patterns,
    captures: Arc<Mutex<Captures>>,
    every: Duration,
    push: Option<(Push, Duration)>,
    ask: Ask,
    said: Said,
}

/// The most messages on standard error about captures that cannot be read.
const SAID: usize = 64;

/// The messages that were printed.
#[derive(Default)]
struct Said(BTreeSet<String>);

impl Said {
    /// Each message is printed once, and at most [`SAID`] of them.
    fn is_to_be_said(&mut self, line: &str) -> bool {
        self.0.len() < SAID && self.0.insert(line.to_owned())
    }
}

impl Exporter {
    /// Starts it.
    ///
    /// # Errors
    /// If a pattern is invalid, or the address is not available.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let patterns = Patterns::new(&options.captures)?;
        let push = options.otlp.as_deref().map(Push::new).transpose()?;
        let captures = Arc::new(Mutex::new(Captures::new(Limits {
            captures: options.max_captures,
            keep: options.keep,
            every: options.every,
        })));
        let mut http = gpumem_http::Options::new(options.listen);
        http.allow_remote = options.allow_remote;
        http.names.clone_from(&options.host_names);
        let (shared, ask) = (
            captures.clone(),
            Ask {
                lines: options.lines,
            },
        );
        let server = Server::start(http, move |request| answer(request, &shared, ask))?;
        Ok(Self {
            server,
            patterns,
            captures,
            every: options.every,
            push: push.map(|push| (push, options.otlp_every)),
            ask,
            said: Said::default(),
        })
    }

    /// The URL of its metrics.
    pub fn url(&self) -> String {
        self.server.url("/metrics")
    }

    /// Searches for captures repeatedly.
    pub fn run(mut self, say: fn(&str)) -> ! {
        if let Some((push, every)) = self.push.take() {
            let (captures, ask) = (self.captures.clone(), self.ask);
            std::thread::spawn(move || push.run(every, &|| families(&captures, ask), say));
        }
        loop {
            let (found, unreadable) = self.patterns.find();
            for line in &unreadable {
                if self.said.is_to_be_said(line) {
                    say(line);
                }
            }
            let captures = self.captures.lock();
            let mut captures = captures.unwrap_or_else(PoisonError::into_inner);
            captures.update(&found, unreadable.len());
            drop(captures);
            std::thread::sleep(self.every);
        }
    }
}

/// Locks the captures only to copy the frames.
fn families(captures: &Mutex<Captures>, ask: Ask) -> Families {
    let captures = captures.lock().unwrap_or_else(PoisonError::into_inner);
    let (now, counts) = (captures.now(), captures.counts());
    drop(captures);
    metrics(&now, counts, ask)
}

fn answer(request: &Request, captures: &Mutex<Captures>, ask: Ask) -> Response {
    match request.path.as_str() {
        "/metrics" => {
            let accept = request.headers.get("accept");
            let format = Format::of(accept.and_then(|accept| accept.to_str().ok()));
            let text = text(&families(captures, ask), format);
            Response::new(200, format.content_type(), text)
        }
        "/healthz" => Response::plain(200, "ok"),
        "/" => Response::new(200, "text/html; charset=utf-8", PAGE),
        _ => Response::not_found(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_printed_once_and_not_too_many() {
        let mut said = Said::default();
        let lines = (0..2 * SAID).map(|number| format!("{number}.bin: damaged"));
        let lines: Vec<String> = lines.flat_map(|line| [line.clone(), line]).collect();
        let printed = lines.iter().filter(|line| said.is_to_be_said(line));
        assert_eq!(printed.count(), SAID);
    }
}
