//! Whether the figures are proven, and if not, exactly what is missing.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{
    CounterValues, Counters, DeviceOrdinal, Header, Integrity, Nanos, ProcessKey, RingState,
};

use serde::Serialize;

use super::{Anomalies, LetGo, Replay, StackKey, Work};
use crate::numbers::{bytes, count, time};

/// How the recorded process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In an orderly way.
    Clean,
    /// It is still running.
    Running,
    /// It was killed, or ended without running its exit handlers.
    Killed,
}

impl Ending {
    /// The word that JSON carries.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Running => "running",
            Self::Killed => "killed",
        }
    }
}

/// What comparing the recorder's counters with the replay's gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// They are equal.
    Agree,
    /// They are not.
    Disagree,
    /// Some counters were in use and could not be compared.
    Incomplete,
}

/// A library's way to the driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reached {
    /// Who asked for the functions.
    pub library: String,
    /// How.
    pub way: String,
    /// How many functions.
    pub hooks: u64,
}

/// What may be claimed for a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// What the capture was made from, if the recorder did not make it. It is then exact as to that, and
    /// nothing is known beside it.
    pub imported: Option<String>,
    /// Hooks that were armed (distinct functions).
    pub hooks: usize,
    /// By which way each library reached them.
    pub reached: Vec<Reached>,
    /// Driver events.
    pub calls: u64,
    /// Calls of hooked functions, with and without an event; 0 where the recorder did not come to
    /// write them.
    pub seen: u64,
    /// What NVML saw beyond the account, at its last reading of each device that it was read on.
    pub unexplained: Vec<(DeviceOrdinal, i64)>,
    /// Events that the recorder lost.
    pub events_lost: u64,
    /// How the process ended.
    pub ending: Ending,
    /// Whether the process went on after the last that is known of it: its ring is gone.
    pub ends_early: bool,
    /// Whether counters and replay agree.
    pub counters: Comparison,
    /// What is missing or does not fit, one line each. Empty: the figures are exact.
    pub missing: Vec<String>,
    /// What else must be said.
    pub notes: Vec<String>,
}

impl Account {
    /// Whether the figures may be called exact.
    pub fn is_exact(&self) -> bool {
        self.missing.is_empty()
    }

    /// Judges a capture that was read to its end. `counters` were read before its records, and the replay was told
    /// their place.
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
            missing: lost(integrity),
            notes: Vec::new(),
        };
        if let Some(error) = integrity
            .drain_error
            .as_ref()
            .filter(|_| integrity.events_lost == 0)
        {
            let note =
                format!("the recorder could not write: {error}; the ring had room for all events");
            account.notes.push(note);
        }
        account.ring(integrity);
        account.stacks(replay);
        account.bounds(replay, integrity);
        account.anomalies(replay);
        account.compare(replay, integrity, counters);
        account.notes.extend(replay.names.notes.iter().cloned());
        account
    }

    /// Compares the recorder's shared counters with the replay's.
    fn compare(&mut self, replay: &Replay, integrity: &Integrity, counters: &Counters) {
        if self.ending == Ending::Running {
            self.notes
                .push("the process is still running: figures are those up to now".into());
            return;
        }
        let mut places: Vec<_> = replay.rows.keys().copied().collect();
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
            self.notes
                .push("the recorder's counters are not known: not compared".into());
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
                "{} {level}: the recorder counted {}, the replay gives {}",
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
        if integrity.in_flight > 0 && self.ending == Ending::Killed {
            self.notes.push(format!(
                "the process died inside {} that had not returned: not counted",
                many(integrity.in_flight, "hook", "hooks")
            ));
        } else if integrity.in_flight > 0 {
            self.missing.push(format!(
                "{} begun and never finished",
                many(integrity.in_flight, "record was", "records were")
            ));
        }
    }

    /// What became of a ring that the capture does not hold.
    fn ring(&mut self, integrity: &Integrity) {
        let ended = match self.ending {
            Ending::Clean => ", but for what came after the program's end",
            Ending::Running | Ending::Killed => "",
        };
        let (why, since) = match &integrity.ring {
            RingState::Gone(since) => (String::new(), since),
            RingState::Refused(why, since) => (
                format!(" (a file in its place was not taken: {why})"),
                since,
            ),
            _ => return,
        };
        let since = since.0 as f64 / 1e9;
        let text = match self.ending {
            Ending::Running => format!(
                "its ring is in memory that only the process has{why}: read is what was written by {since:.3} s"
            ),
            _ => format!(
                "the ring of the process is gone{why}: nothing is known of what came after {since:.3} s{ended}"
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

    /// Stacks that events refer to and the capture does not have.
    fn stacks(&mut self, replay: &Replay) {
        let names = &replay.names;
        let lacks = |key: &StackKey| !names.has_python(key.py) || !names.has_native(key.native);
        // What was allocated for is no part of a stack.
        let of = |key: &StackKey| StackKey {
            work: Work::default(),
            ..*key
        };
        let lacking = replay.keys.iter().filter(|key| lacks(key)).map(of);
        let count = lacking.collect::<BTreeSet<StackKey>>().len() as u64;
        if count > 0 {
            let what = many(count, "stack is", "stacks are");
            self.missing
                .push(format!("{what} not in the capture: bytes without a line"));
        }
    }

    /// What a bounded capture does not have any more.
    fn bounds(&mut self, replay: &Replay, integrity: &Integrity) {
        if replay
            .restored
            .is_some_and(|restored| !restored.is_readable)
        {
            let what =
                "what came before the first event is in a form that this version cannot read";
            self.missing.push(what.into());
        }
        let Some(bounded) = integrity.bounded.filter(|bounded| bounded.from.0 > 0) else {
            return;
        };
        self.notes.push(format!(
            "bounded to {}: records are kept from {} on, and of what came before what it comes to",
            bytes(bounded.bytes),
            count(bounded.from.0)
        ));
        let LetGo {
            stacks,
            blocks,
            bytes: held,
            peak_blocks,
        } = replay.let_go;
        if stacks > 0 {
            let what = many(stacks, "stack", "stacks");
            self.notes.push(format!(
                "{what} that held nothing let go of: what they did in all stands under other stacks"
            ));
        }
        if blocks > 0 {
            let what = many(blocks, "block was", "blocks were");
            let of = bytes(held);
            self.missing.push(format!(
                "{what} not kept one by one ({of}): what is live of that stands under other stacks; \
                 the capture was bounded to too few bytes for this program"
            ));
        }
        if peak_blocks > 0 {
            let what = many(peak_blocks, "block", "blocks");
            self.missing.push(format!(
                "{what} of a peak not kept one by one: the ledger at the peak lacks them"
            ));
        }
    }

    fn anomalies(&mut self, replay: &Replay) {
        for ((device, level), row) in &replay.rows {
            let Anomalies {
                double_allocations,
                frees_without_block,
                frees_of_other_size,
                unknown_pointers,
                lost_cancels,
                mismatches,
                holdings_of_other_size,
            } = row.anomalies;
            for (count, one, more) in [
                (
                    double_allocations,
                    "address was given out twice without a free",
                    "addresses were given out twice without a free",
                ),
                (
                    frees_without_block,
                    "free of a block whose allocation is not in the capture",
                    "frees of blocks whose allocations are not in the capture",
                ),
                (
                    frees_of_other_size,
                    "free of another size than was allocated",
                    "frees of another size than was allocated",
                ),
                (
                    unknown_pointers,
                    "free of memory whose allocation was not seen",
                    "frees of memory whose allocations were not seen",
                ),
                (
                    lost_cancels,
                    "failed free that is not in the capture",
                    "failed frees that are not in the capture",
                ),
                (
                    mismatches,
                    "event at which the framework's own figure differed",
                    "events at which the framework's own figure differed",
                ),
                (
                    holdings_of_other_size,
                    "holding changed from another size than it had",
                    "holdings changed from other sizes than they had",
                ),
            ] {
                if count > 0 {
                    let what = many(count, one, more);
                    self.missing
                        .push(format!("{} {level}: {what}", place(*device)));
                }
            }
        }
    }
}

fn reached(replay: &Replay) -> Vec<Reached> {
    let mut ways: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for hook in &replay.names.hooks {
        let library = hook.library.rsplit('/').next().unwrap_or(&hook.library);
        let functions = ways.entry((library, &hook.way)).or_default();
        functions.insert(&hook.function);
    }
    ways.into_iter()
        .map(|((library, way), functions)| Reached {
            library: library.to_owned(),
            way: way.to_owned(),
            hooks: functions.len() as u64,
        })
        .collect()
}

/// What the recorder lost and what is damaged in the file.
fn lost(integrity: &Integrity) -> Vec<String> {
    let mut missing = Vec::new();
    if integrity.events_lost > 0 {
        let times: Vec<String> = integrity
            .loss_ranges
            .iter()
            .map(|range| format!("{}–{}", time(range.first), time(range.last)))
            .collect();
        let between = if times.is_empty() {
            String::new()
        } else {
            format!(", at {}", times.join(", "))
        };
        let what = many(integrity.events_lost, "event", "events");
        missing.push(format!(
            "{what} lost: the recorder's ring was full{between}"
        ));
    }
    for damage in &integrity.damage {
        let records = match (damage.first_missing, damage.next_good) {
            (Some(first), Some(next)) => format!(
                ": records {} to {} are missing",
                first.0,
                next.0.saturating_sub(1)
            ),
            (Some(first), None) => format!(": all records from {} on are missing", first.0),
            (None, _) => String::new(),
        };
        missing.push(format!(
            "damaged at byte {}: {}{records}",
            damage.offset, damage.what
        ));
    }
    if let Some(error) = integrity
        .drain_error
        .as_ref()
        .filter(|_| integrity.events_lost > 0)
    {
        missing.push(format!("the recorder could not write: {error}"));
    }
    missing
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

/// A device for people.
pub fn place(device: DeviceOrdinal) -> String {
    if device == DeviceOrdinal::NONE {
        "no GPU".into()
    } else {
        format!("GPU {}", device.0)
    }
}

/// A count with its word.
pub fn many(count: u64, one: &str, more: &str) -> String {
    format!(
        "{} {}",
        crate::numbers::count(count),
        if count == 1 { one } else { more }
    )
}

/// How long the recorded time was: to the clean end if there was one, else to the last event.
pub fn duration(header: &Header, replay: &Replay) -> Nanos {
    header.ended.unwrap_or(replay.last).max(replay.last)
}
