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

/// Shows the progress of work until it is dropped.
pub struct Bar {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bar {
    /// Shows the progress of reading a capture.
    pub fn start(progress: Progress) -> Self {
        let template = "reading {bar:30} {binary_bytes} of {binary_total_bytes}, {eta} left";
        Self::watching(template.to_owned(), move || {
            (progress.position(), progress.total())
        })
    }

    /// Shows the progress of other work: how many items are done, of how many.
    pub fn counting(doing: &str, so_far: impl Fn() -> (u64, u64) + Send + 'static) -> Self {
        // Without a time left: the items take very different times, and their number grows.
        let template = format!("{doing} {{bar:30}} {{human_pos}} of {{human_len}}");
        Self::watching(template, so_far)
    }

    fn watching(template: String, so_far: impl Fn() -> (u64, u64) + Send + 'static) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&done);
        let thread = std::io::stderr()
            .is_terminal()
            .then(|| {
                thread::Builder::new()
                    .spawn(move || watch(&template, so_far, &watched))
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

fn watch(template: &str, so_far: impl Fn() -> (u64, u64), done: &AtomicBool) {
    let mut started = None;
    let mut bar = None;
    while !done.load(Ordering::Relaxed) {
        thread::park_timeout(INTERVAL);
        let (position, total) = so_far();
        let is_at_work = position < total;
        if !is_at_work || done.load(Ordering::Relaxed) {
            continue;
        }
        let since = started.get_or_insert_with(Instant::now);
        if since.elapsed() >= PATIENCE {
            let bar = bar.get_or_insert_with(|| draw(template, total));
            bar.set_length(total);
            bar.set_position(position);
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn draw(template: &str, total: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style)
}
