//! A thread that reads a capture again, for past points in time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gpumem_capture::Progress;

use super::moment_reader::MomentReader;
use super::request::{Answer, Request};

/// Past points in time of one capture. The thread starts with the first request.
pub struct Past {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    start: Mutex<Option<(PathBuf, u64)>>,
}

struct Shared {
    on: Mutex<On>,
    changed: Condvar,
}

#[derive(Default)]
struct On {
    /// The newest request, unless it was cancelled.
    asked: Option<Request>,
    /// Whether the thread has begun to process it.
    is_begun: bool,
    answer: Option<Arc<Answer>>,
    reading: Option<Progress>,
    is_over: bool,
}

impl Past {
    /// For the capture at `path` with this nonce.
    pub(crate) fn new(path: &Path, nonce: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                on: Mutex::default(),
                changed: Condvar::new(),
            }),
            thread: Mutex::default(),
            start: Mutex::new(Some((path.to_owned(), nonce))),
        }
    }

    /// Makes a request. It cancels an earlier request without an answer.
    pub fn ask(&self, request: Request) {
        let start = lock(&self.start).take();
        if let Some((path, nonce)) = start {
            let shared = self.shared.clone();
            let thread =
                std::thread::spawn(move || serve(MomentReader::new(&path, nonce), &shared));
            *lock(&self.thread) = Some(thread);
        }
        let mut on = self.shared.on();
        if on.asked.as_ref() != Some(&request) {
            on.replace(Some(request));
            self.shared.changed.notify_all();
        }
    }

    /// Cancels the request without an answer.
    pub fn give_up(&self) {
        self.shared.on().replace(None);
    }

    /// The newest answer.
    pub fn answer(&self) -> Option<Arc<Answer>> {
        self.shared.on().answer.clone()
    }

    /// The progress of reading: bytes read, of bytes in all; `None` if nothing is being read.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let on = self.shared.on();
        let reading = on.reading.as_ref()?;
        Some((reading.position(), reading.total()))
    }

    /// Makes a request and waits for the answer, at most for `limit`.
    pub fn wait(&self, request: &Request, limit: Duration) -> Option<Arc<Answer>> {
        self.ask(request.clone());
        let is_answered = |on: &On| {
            on.answer
                .as_ref()
                .is_some_and(|answer| answer.request == *request)
        };
        let on = self.shared.on();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(on, limit, |on| !is_answered(on));
        let (on, _) = waited.unwrap_or_else(PoisonError::into_inner);
        on.answer
            .clone()
            .filter(|answer| answer.request == *request)
    }
}

impl Drop for Past {
    fn drop(&mut self) {
        let mut on = self.shared.on();
        on.replace(None);
        on.is_over = true;
        drop(on);
        self.shared.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn on(&self) -> MutexGuard<'_, On> {
        lock(&self.on)
    }

    /// The reading for this request has begun; it is stopped at once if the request was cancelled.
    fn reads(&self, request: &Request, progress: Progress) {
        let mut on = self.on();
        if on.asked.as_ref() != Some(request) {
            progress.stop();
        }
        on.reading = Some(progress);
    }
}

impl On {
    fn replace(&mut self, request: Option<Request>) {
        (self.asked, self.is_begun) = (request, false);
        if let Some(reading) = &self.reading {
            reading.stop();
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut reader: MomentReader, shared: &Shared) {
    loop {
        let mut on = shared.on();
        let request = loop {
            if on.is_over {
                return;
            }
            match &on.asked {
                Some(request) if !on.is_begun => break request.clone(),
                _ => {
                    on = shared
                        .changed
                        .wait(on)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        };
        on.is_begun = true;
        drop(on);
        let given = reader.answer(&request, &mut |progress| shared.reads(&request, progress));
        let mut on = shared.on();
        on.reading = None;
        // The result of a stopped reading is unusable.
        if on.is_begun && on.asked.as_ref() == Some(&request) {
            on.answer = Some(Arc::new(Answer { request, given }));
            shared.changed.notify_all();
        }
    }
}
