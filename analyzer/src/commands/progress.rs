//! A progress bar on stderr: only on a terminal, only for work that takes longer than a second.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gpumem_capture::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(100);

/// Shows how far reading has come until it is dropped.
pub struct Bar {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bar {
    /// Starts to watch.
    pub fn start(progress: Progress) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&done);
        let thread = std::io::stderr()
            .is_terminal()
            .then(|| {
                thread::Builder::new()
                    .spawn(move || watch(&progress, &watched))
                    .ok()
            })
            .flatten();
        Self { done, thread }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn watch(progress: &Progress, done: &AtomicBool) {
    let started = Instant::now();
    let mut bar = None;
    while !done.load(Ordering::Relaxed) {
        thread::park_timeout(INTERVAL);
        if started.elapsed() >= PATIENCE && !done.load(Ordering::Relaxed) {
            let bar = bar.get_or_insert_with(|| draw(progress.total()));
            bar.set_length(progress.total());
            bar.set_position(progress.position());
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn draw(total: u64) -> ProgressBar {
    let template = "reading {bar:30} {binary_bytes} of {binary_total_bytes}, {eta} left";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style)
}
