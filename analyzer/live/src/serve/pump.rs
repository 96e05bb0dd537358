//! The thread that sends frames to the readers.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::frames::Watch;

use super::hub::Hub;

/// The interval of frames.
const EVERY: Duration = Duration::from_millis(200);
/// The interval if readers request different tables, because each is made for every frame.
const EVERY_OF_MANY: Duration = Duration::from_millis(500);
/// The time limit for a frame with the requested table; a later one is sent in the next round.
const FRAME: Duration = Duration::from_secs(2);
/// The interval without readers.
const NOBODY: Duration = Duration::from_secs(60);

pub(super) struct Pump {
    hub: Arc<Hub>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    pub(super) fn start(watch: Arc<Watch>, hub: Arc<Hub>, started_wall_ns: u64) -> Self {
        let of = hub.clone();
        let thread = std::thread::spawn(move || run(&watch, &of, started_wall_ns));
        Self {
            hub,
            thread: Some(thread),
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.hub.end();
        if let Some(thread) = self.thread.take() {
            // The thread has no result.
            let _ = thread.join();
        }
    }
}

fn run(watch: &Watch, hub: &Hub, started_wall_ns: u64) {
    loop {
        let begun = Instant::now();
        let asks = hub.asks();
        for ask in &asks {
            watch.ask(*ask);
            if let Some(frame) = watch.wait(FRAME, |frame| frame.ask == *ask) {
                hub.send(&frame, started_wall_ns);
            }
        }
        let pause = match asks.len() {
            0 => NOBODY,
            1 => EVERY,
            // Separate tables for readers take at most half of the follower's time.
            _ => EVERY_OF_MANY.max(begun.elapsed()),
        };
        if !hub.wait(pause) {
            return;
        }
    }
}
