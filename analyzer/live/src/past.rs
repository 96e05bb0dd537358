//! A thread that reads a capture again, for moments that have passed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gpumem_capture::Progress;

use crate::moment_reader::MomentReader;
use crate::request::{Answer, Request};

/// Moments of one capture. Its thread starts with the first question.
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
    /// The newest question, unless it was given up.
    asked: Option<Request>,
    /// Whether the thread has begun with it.
    is_begun: bool,
    answer: Option<Arc<Answer>>,
    reading: Option<Progress>,
    is_over: bool,
}

impl Past {
    /// Of the capture at `path` that has this number of its own.
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

    /// Asks. What was asked before and has no answer yet is given up.
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

    /// Gives up what has no answer yet.
    pub fn give_up(&self) {
        self.shared.on().replace(None);
    }

    /// The newest answer.
    pub fn answer(&self) -> Option<Arc<Answer>> {
        self.shared.on().answer.clone()
    }

    /// How far reading has come: so many bytes of so many. `None`: nothing is read.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let on = self.shared.on();
        let reading = on.reading.as_ref()?;
        Some((reading.position(), reading.total()))
    }

    /// Asks, and waits for the answer, for so long at most.
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
            // It has said all that it had to say.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn on(&self) -> MutexGuard<'_, On> {
        lock(&self.on)
    }

    /// A reading for this question has begun; one that nobody waits for ends at once.
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
        // Of a reading that was stopped nothing is of use.
        if on.is_begun && on.asked.as_ref() == Some(&request) {
            on.answer = Some(Arc::new(Answer { request, given }));
            shared.changed.notify_all();
        }
    }
}
