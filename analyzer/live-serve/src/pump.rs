//! The thread that takes frames to the readers.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpumem_live::Watch;

use crate::hub::Hub;

/// Between two frames for a reader.
const EVERY: Duration = Duration::from_millis(200);
/// The same where readers want different tables: each is made for every frame.
const EVERY_OF_MANY: Duration = Duration::from_millis(500);
/// A frame with what was asked for is there by then, or comes in the next round.
const FRAME: Duration = Duration::from_secs(2);
/// Where nobody looks.
const NOBODY: Duration = Duration::from_secs(60);

pub(crate) struct Pump {
    hub: Arc<Hub>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    pub(crate) fn start(watch: Arc<Watch>, hub: Arc<Hub>, started_wall_ns: u64) -> Self {
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
            // It has no result.
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
            // Readers with tables of their own take half of the follower's time at most.
            _ => EVERY_OF_MANY.max(begun.elapsed()),
        };
        if !hub.wait(pause) {
            return;
        }
    }
}
