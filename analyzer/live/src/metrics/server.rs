//! The server of metrics, and its search for captures.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpumem_analyzer::captures::Search;
use gpumem_http::{Request, Response, Server, StartError};

use crate::frames::{Captures, Frame, Limits, Pod};

use super::families::{Capture, Families, metrics};
use super::otlp::{Push, PushError};
use super::text::{Format, text};

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
    /// The interval of searching for captures, of reading them, and of pushes.
    pub every: Duration,
    /// The number of lines of each capture.
    pub lines: usize,
    /// A collector's base URL.
    pub otlp: Option<String>,
}

/// Why the exporter does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pattern is invalid.
    #[error("{0}: not a pattern of file names: {1}")]
    Pattern(String, glob::PatternError),
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
    named: Vec<String>,
    search: Search,
    captures: Arc<Mutex<Captures>>,
    every: Duration,
    push: Option<Push>,
    lines: usize,
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
        for pattern in options.captures.iter().filter(|of| !Path::new(of).exists()) {
            let bad = |error| Error::Pattern(pattern.clone(), error);
            glob::Pattern::new(pattern).map_err(bad)?;
        }
        let push = options.otlp.as_deref().map(Push::new).transpose()?;
        let captures = Arc::new(Mutex::new(Captures::new(Limits {
            captures: options.max_captures,
            keep: Some(options.keep),
            every: options.every,
            has_table: true,
        })));
        let mut http = gpumem_http::Options::new(options.listen);
        http.allow_remote = options.allow_remote;
        http.names.clone_from(&options.host_names);
        let (shared, lines) = (captures.clone(), options.lines);
        let server = Server::start(http, move |request| answer(request, &shared, lines))?;
        Ok(Self {
            server,
            named: options.captures.clone(),
            search: Search::default(),
            captures,
            every: options.every,
            push,
            lines,
            said: Said::default(),
        })
    }

    /// The URL of its metrics.
    pub fn url(&self) -> String {
        self.server.url("/metrics")
    }

    /// Searches for captures repeatedly.
    pub fn run(mut self, say: fn(&str)) -> ! {
        if let Some(push) = self.push.take() {
            let (captures, lines, every) = (self.captures.clone(), self.lines, self.every);
            std::thread::spawn(move || push.run(every, &|| families(&captures, lines), say));
        }
        loop {
            let named: Vec<PathBuf> = self.named.iter().flat_map(|of| matching(of)).collect();
            let found = self.search.find(&named);
            let captures = self.captures.lock();
            let mut captures = captures.unwrap_or_else(PoisonError::into_inner);
            captures.update(&found);
            drop(captures);
            for line in &found.unreadable {
                if self.said.is_to_be_said(line) {
                    say(line);
                }
            }
            std::thread::sleep(self.every);
        }
    }
}

/// The files and folders with this name, else those that the pattern matches.
fn matching(named: &str) -> Vec<PathBuf> {
    let path = PathBuf::from(named);
    match path.exists() {
        true => vec![path],
        false => glob::glob(named).into_iter().flatten().flatten().collect(),
    }
}

/// The metrics of one capture, as text.
pub fn once(path: &Path, frame: Frame, lines: usize) -> String {
    let pod = Pod::of((!frame.state.is_final()).then_some(frame.pid));
    let capture = Capture::new(path, pod, Arc::new(frame));
    text(&metrics(&[capture], None, lines), Format::Prometheus)
}

/// Locks the captures only to copy the frames.
fn families(captures: &Mutex<Captures>, lines: usize) -> Families {
    let captures = captures.lock().unwrap_or_else(PoisonError::into_inner);
    let (now, counts) = (captures.now(), captures.counts());
    drop(captures);
    let now: Vec<_> = now.into_iter().filter_map(Capture::of).collect();
    metrics(&now, Some(counts), lines)
}

fn answer(request: &Request, captures: &Mutex<Captures>, lines: usize) -> Response {
    match request.path.as_str() {
        "/metrics" => {
            let accept = request.headers.get("accept");
            let format = Format::of(accept.and_then(|accept| accept.to_str().ok()));
            let text = text(&families(captures, lines), format);
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
