//! Serves a folder: a table of its captures, and each of them by its number.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::frames::{Ask, Folder, FolderRow};
use gpumem_http::{Request, Response};

use super::moments::Moments;
use super::page::folder_page;
use super::ranks::Ranks;
use super::served::Served;

/// The most captures whose own pages are open at once.
const OPEN: usize = 8;
/// An unused capture is closed after this time.
const UNUSED: Duration = Duration::from_secs(10);

/// The captures of a folder.
pub(super) struct ServedFolder {
    on: Mutex<On>,
}

struct On {
    folder: Folder,
    /// Each capture that was found. Its index is its number, which never changes.
    numbers: Vec<PathBuf>,
    open: Vec<Open>,
}

struct Open {
    number: usize,
    served: Arc<Served>,
    used: Instant,
}

impl ServedFolder {
    pub(super) fn new(path: &Path) -> Self {
        let on = On {
            folder: Folder::new(path),
            numbers: Vec::new(),
            open: Vec::new(),
        };
        Self { on: Mutex::new(on) }
    }

    pub(super) fn answer(&self, request: &Request, first: Ask, moments: &Moments) -> Response {
        match request.path.as_str() {
            "/" => return folder_page(),
            "/ranks" => return self.ranks(),
            _ => {}
        }
        let parts = request.path.trim_start_matches('/').split_once('/');
        let number = |text: &str| text.parse().ok().filter(|n: &usize| n.to_string() == text);
        let Some((number, below)) = parts.and_then(|(n, below)| Some((number(n)?, below))) else {
            return Response::not_found();
        };
        match self.capture(number, first) {
            Ok(served) => served.answer((request, below), first, (moments, Some(number))),
            Err(refusal) => refusal,
        }
    }

    fn ranks(&self) -> Response {
        let mut on = self.on();
        let rows = on.rows();
        let number = |file: &PathBuf| on.numbers.iter().position(|of| of == file);
        let ranks = Ranks::of(&on.folder, &rows, number);
        let text = serde_json::to_string(&ranks).unwrap_or_else(|_| "{}".into());
        Response::new(200, "application/json", text)
    }

    /// The capture with this number; it is opened if necessary.
    fn capture(&self, number: usize, first: Ask) -> Result<Arc<Served>, Response> {
        let mut on = self.on();
        let is_used = |of: &Open| {
            of.number == number || of.used.elapsed() < UNUSED || of.served.has_readers()
        };
        let (kept, unused) = std::mem::take(&mut on.open).into_iter().partition(is_used);
        on.open = kept;
        let served = on.open(number, first);
        drop(on);
        // Dropping waits for their threads, so it happens without the lock.
        drop::<Vec<Open>>(unused);
        served
    }

    fn on(&self) -> MutexGuard<'_, On> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl On {
    /// All current rows. New captures get a number.
    fn rows(&mut self) -> Vec<FolderRow> {
        let rows = self.folder.rows();
        for row in &rows {
            if !self.numbers.contains(&row.file) {
                self.numbers.push(row.file.clone());
            }
        }
        rows
    }

    fn open(&mut self, number: usize, first: Ask) -> Result<Arc<Served>, Response> {
        if let Some(of) = self.open.iter_mut().find(|of| of.number == number) {
            of.used = Instant::now();
            return Ok(of.served.clone());
        }
        if number >= self.numbers.len() {
            self.rows();
        }
        let Some(path) = self.numbers.get(number) else {
            return Err(Response::not_found());
        };
        if self.open.len() >= OPEN {
            return Err(Response::plain(503, "8 captures are already open"));
        }
        let gone = |_| Response::plain(404, "the capture can no longer be opened");
        let served = Arc::new(Served::start(path, first).map_err(gone)?);
        self.open.push(Open {
            number,
            served: served.clone(),
            used: Instant::now(),
        });
        Ok(served)
    }
}
