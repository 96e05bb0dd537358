//! The accuracy check: whether the figures are exact, and if not, what is missing.

use gpumem_capture::{
    CounterValues, Counters, DeviceOrdinal, Header, Integrity, Nanos, ProcessKey, RingState,
};

use super::missing;
use super::reached::{Reached, reached};
use super::replayed::Replayed;
use super::words::place;
use crate::replay::{Replay, Sampling};
use crate::units::many;

/// How the recorded process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited normally.
    Clean,
    /// It is still running.
    Running,
    /// It was killed, or ended without running its exit handlers.
    Killed,
}

impl Ending {
    /// The value in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Running => "running",
            Self::Killed => "killed",
        }
    }
}

/// The result of comparing the recorder's counters with the replay's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// They are equal.
    Agree,
    /// They differ.
    Disagree,
    /// Some counters were in use and could not be compared.
    Incomplete,
}

/// The result of the accuracy check of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The source of the capture, if it was imported. Its figures are then exact with respect to that source.
    pub imported: Option<String>,
    /// The replay that wrote the capture, if one did.
    pub replayed: Option<Replayed>,
    /// Hooks that were armed (distinct functions).
    pub hooks: usize,
    /// How each library reached them.
    pub reached: Vec<Reached>,
    /// Driver events.
    pub calls: u64,
    /// Calls of hooked functions, with and without an event; 0 if the recorder did not write the number.
    pub seen: u64,
    /// Bytes that remained unexplained at the last NVML reading, for each device that has one.
    pub unexplained: Vec<(DeviceOrdinal, i64)>,
    /// Events that the recorder lost.
    pub events_lost: u64,
    /// How the process ended.
    pub ending: Ending,
    /// Whether the process continued after the last event in the capture, because its ring no longer exists.
    pub ends_early: bool,
    /// Whether counters and replay agree.
    pub counters: Comparison,
    /// What is missing or inconsistent, one line each. If it is empty, the figures are exact.
    pub missing: Vec<String>,
    /// How stacks were sampled, if they were. Bytes by stack are then estimates.
    pub sampling: Option<Sampling>,
    /// Further notes.
    pub notes: Vec<String>,
}

impl Account {
    /// One line that stacks were sampled, if they were.
    pub fn sampled(&self) -> Option<String> {
        self.sampling.map(|sampling| {
            let mean = crate::units::bytes(sampling.mean.get());
            format!(
                "sampled: one tensor stack was recorded per {mean} allocated, on average; bytes by line and stack are estimates, totals and peaks are exact"
            )
        })
    }

    /// Whether the figures may be called exact.
    pub fn is_exact(&self) -> bool {
        self.missing.is_empty()
    }

    /// Judges a capture that was read to its end. `counters` must have been read before the records, and their event
    /// passed to `Replay::compare_counters_at`.
    pub fn judge(
        replay: &Replay,
        header: &Header,
        integrity: &Integrity,
        counters: &Counters,
    ) -> Self {
        let ending = if integrity.clean_exit || header.ended.is_some() {
            Ending::Clean
        } else if header.is_running() {
            Ending::Running
        } else {
            Ending::Killed
        };
        let mut hooks: Vec<&str> = replay
            .names
            .hooks
            .iter()
            .map(|h| h.function.as_str())
            .collect();
        hooks.sort_unstable();
        hooks.dedup();
        let mut account = Self {
            imported: replay.names.fact(ProcessKey::IMPORTED).map(str::to_owned),
            replayed: Replayed::of(&replay.names),
            hooks: hooks.len(),
            reached: reached(replay),
            calls: replay.calls.values().sum(),
            seen: replay.names.calls().map(|(_, calls)| calls).sum(),
            unexplained: replay
                .devices
                .iter()
                .filter_map(|(device, now)| Some((*device, now.readings.best()?.unexplained()?)))
                .collect(),
            events_lost: integrity.events_lost,
            ending,
            ends_early: false,
            counters: Comparison::Incomplete,
            missing: missing::lost(integrity),
            sampling: replay.sampling,
            notes: Vec::new(),
        };
        if let Some(error) = integrity
            .drain_error
            .as_ref()
            .filter(|_| integrity.events_lost == 0)
        {
            let note = format!("the recorder could not write: {error}; no event was lost");
            account.notes.push(note);
        }
        if let Some(replayed) = &account.replayed {
            account.missing.extend(replayed.doubts.iter().cloned());
        }
        account.ring(integrity);
        account.missing.extend(missing::stacks(replay));
        missing::bounds(replay, integrity, &mut account.missing, &mut account.notes);
        account.missing.extend(missing::anomalies(replay));
        account.compare(replay, integrity, counters);
        let (unseen, notes) = missing::said(&replay.names.notes);
        account.missing.extend(unseen);
        account.notes.extend(notes);
        account
    }

    /// Compares the recorder's shared counters with the replay's.
    fn compare(&mut self, replay: &Replay, integrity: &Integrity, counters: &Counters) {
        if self.ending == Ending::Running {
            self.notes
                .push("the process is still running: the figures are those so far".into());
            return;
        }
        let mut places: Vec<_> = replay.levels.keys().copied().collect();
        places.extend(
            counters
                .rows
                .iter()
                .map(|(device, level, _)| (*device, *level)),
        );
        places.sort_unstable();
        places.dedup();
        let is_known = counters.of.is_some();
        if !is_known && !places.is_empty() {
            self.notes.push(
                "the recorder's counters are not available, so they were not compared".into(),
            );
        }
        let (mut agree, mut is_compared) = (true, is_known);
        for (device, level) in places.into_iter().filter(|_| is_known) {
            let shared = counters
                .rows
                .iter()
                .find(|row| (row.0, row.1) == (device, level))
                .map(|row| row.2)
                .unwrap_or_default();
            let Some(replayed) = replay.counters_compared(device, level) else {
                is_compared = false;
                break;
            };
            if shared == replayed {
                continue;
            }
            agree = false;
            self.missing.push(format!(
                "{} {level}: the recorder counted {}, the replay has {}",
                place(device),
                counted(&shared),
                counted(&replayed)
            ));
        }
        self.counters = match (agree, is_compared) {
            (false, _) => Comparison::Disagree,
            (true, true) => Comparison::Agree,
            (true, false) => Comparison::Incomplete,
        };
        // A thread has one unfinished record at most. More are damage: of the program's threads, of the recorder's, and
        // of one that has recorded nothing before.
        let most = replay.threads() as u64 + 2;
        if integrity.in_flight > 0 && self.ending == Ending::Killed && integrity.in_flight <= most {
            self.notes.push(format!(
                "the process ended inside {} that did not return: not counted",
                many(integrity.in_flight, "hook", "hooks")
            ));
        } else if integrity.in_flight > 0 {
            self.missing.push(format!(
                "{} begun and never finished",
                many(integrity.in_flight, "record was", "records were")
            ));
        }
    }

    /// Notes a ring that no longer exists: events in it are missing from the capture.
    fn ring(&mut self, integrity: &Integrity) {
        let ended = match self.ending {
            Ending::Clean => ", except for events after the program's end",
            Ending::Running | Ending::Killed => "",
        };
        let (why, since) = match &integrity.ring {
            RingState::Gone(since) => (String::new(), since),
            RingState::Refused(why, since) => (
                format!(" (another file with its name was ignored: {why})"),
                since,
            ),
            _ => return,
        };
        let since = since.0 as f64 / 1e9;
        let text = match self.ending {
            Ending::Running => format!(
                "only the process can read its ring{why}: the figures include the events written by {since:.3} s"
            ),
            _ => format!(
                "the ring of the process no longer exists{why}: events after {since:.3} s are missing{ended}"
            ),
        };
        match self.ending {
            Ending::Killed => {
                self.ends_early = true;
                self.missing.push(text);
            }
            Ending::Running | Ending::Clean => self.notes.push(text),
        }
    }
}

fn counted(values: &CounterValues) -> String {
    let CounterValues {
        live,
        peak,
        allocations,
        frees,
        ..
    } = values;
    format!("live {live}, peak {peak}, {allocations} allocations, {frees} frees")
}

/// The duration of the recording: up to the clean end if there was one, else up to the last event.
pub fn duration(header: &Header, replay: &Replay) -> Nanos {
    header.ended.unwrap_or(replay.last).max(replay.last)
}
