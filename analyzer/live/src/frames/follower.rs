//! Takes in the records of a capture, and makes frames of the resulting state.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpumem_analyzer::ranks::{Buckets, CourseWatch, RankRow};
use gpumem_analyzer::replay::{Query, Replay};
use gpumem_capture::{Follow, Header, Progress, Record};

use super::ask::Ask;
use super::baseline::Baselines;
use super::desk::Desk;
use super::frame::{self, Figures, State, Table};
use super::growth::LiveGrowth;
use super::place::Place;
use super::steps::Steps;

/// A bucket of the memory over time is at first 2^20 ns wide, about a millisecond.
const BUCKETS: Buckets = Buckets {
    unit_ns: 1,
    narrowest: 20,
    most: 512,
};

/// The number of records between two readings of the clock.
const RECORDS: u32 = 4096;

/// The table is updated no sooner than this while the program runs, because names and sums of all stacks cost more than
/// the rest.
const TABLE_EVERY: Duration = Duration::from_millis(500);
/// Updating the table takes at most one part in this many of a core: a slow table is updated less often.
const TABLE_PART: u32 = 500;
/// The table is never older than this.
const TABLE_AT_LEAST: Duration = Duration::from_secs(3);

pub(crate) struct Follower {
    header: Header,
    progress: Progress,
    desk: Arc<Desk>,
    replay: Replay,
    course: CourseWatch,
    steps: Steps,
    baselines: Baselines,
    lost: Option<u64>,
    /// The number of records since the newest reading of the clock.
    since: u32,
    published: Instant,
    /// Whether tables, baselines and memory over time are made.
    has_table: bool,
    /// The newest table, and what is made with it.
    made: Option<Made>,
    /// The time after which it may be updated.
    table_after: Duration,
    place: Place,
    /// What happened to the capture's file; reading then stops.
    pub(crate) changed: Option<&'static str>,
    /// The number of records at the newest frame of a running program, and the request that it was made for.
    shown: Option<(u64, Ask)>,
    records: u64,
    /// Set when the owner is gone: further records are ignored.
    is_left: bool,
}

/// What is updated less often than the rest of a frame.
struct Made {
    table: Arc<Table>,
    row: Arc<RankRow>,
    ask: Ask,
    at: Instant,
    events: u64,
}

impl Follower {
    pub(crate) fn new(
        (header, progress): (Header, Progress),
        place: Place,
        desk: Arc<Desk>,
        has_table: bool,
    ) -> Self {
        Self {
            has_table,
            course: CourseWatch::new(header.started_wall_ns, BUCKETS),
            replay: Replay::new(Query::default()),
            steps: Steps::default(),
            baselines: Baselines::default(),
            lost: None,
            header,
            progress,
            desk,
            since: 0,
            published: Instant::now(),
            made: None,
            table_after: TABLE_EVERY,
            place,
            changed: None,
            shown: None,
            records: 0,
            is_left: false,
        }
    }

    /// Makes a frame and publishes it.
    pub(crate) fn publish(&mut self, state: State) {
        self.published = Instant::now();
        let ask = self.desk.ask();
        let is_final = state.is_final();
        if is_final {
            // While the program runs, categories of live blocks are provisional.
            self.replay.settle_categories();
        }
        let (table, row) = self.table(ask, is_final);
        let course = self.course.so_far();
        let course = course.map(|(on, of)| (on, of.clone())).collect();
        let figures = Figures::of(&self.replay, &self.steps);
        let of = (&self.replay, &self.header, row);
        let mut frame = figures.frame(of, state, course, (ask, table));
        frame.lost = self.lost;
        self.desk.lay_out(frame);
    }

    /// The table and the row among ranks, updated if it is time.
    fn table(&mut self, ask: Ask, is_final: bool) -> (Arc<Table>, Arc<RankRow>) {
        let events = self.replay.events;
        if let Some(made) = &self.made
            && made.ask == ask
            && (made.events == events || (!is_final && made.at.elapsed() < self.table_after))
        {
            return (made.table.clone(), made.row.clone());
        }
        let began = Instant::now();
        let table = match self.has_table {
            true => frame::table(&self.replay, ask, &self.baselines),
            false => Table::none(self.replay.last_seq),
        };
        let row = RankRow::so_far(&self.place.path, &self.header, &self.replay);
        self.table_after = TABLE_EVERY
            .max(began.elapsed() * TABLE_PART)
            .min(TABLE_AT_LEAST);
        let (table, row) = (Arc::new(table), Arc::new(row));
        self.made = Some(Made {
            table: table.clone(),
            row: row.clone(),
            ask,
            at: Instant::now(),
            events,
        });
        (table, row)
    }

    /// What happened to the capture's file, if anything.
    pub(crate) fn file_changed(&self) -> Option<&'static str> {
        self.place.changed(self.progress.position())
    }

    /// Takes in the number of events that the recorder lost.
    pub(crate) fn lost(&mut self, events: u64) {
        self.lost = Some(events);
    }

    /// How the program ended, according to its capture.
    pub(crate) fn ending(&self, header: &Header) -> State {
        frame::ending(header, self.replay.last)
    }
}

impl Follow for Follower {
    fn record(&mut self, record: Record<'_>) {
        if self.is_left {
            return;
        }
        self.records += 1;
        if matches!(record, Record::State(..)) && self.replay.events > 0 {
            // It replaces all records before it.
            self.replay = Replay::new(Query::default());
            self.baselines = Baselines::default();
            self.course = CourseWatch::new(self.header.started_wall_ns, BUCKETS);
            self.steps.growth = LiveGrowth::default();
        }
        self.replay.feed(record);
        self.steps.observe(&self.replay, &record);
        if self.has_table {
            self.course.observe(&self.replay, &record);
            self.baselines.observe(&self.replay);
        }
        self.since += 1;
        if self.since >= RECORDS {
            self.since = 0;
            self.is_left = self.desk.on().is_over;
            if self.published.elapsed() >= self.desk.every() {
                self.publish(State::CatchingUp(
                    self.progress.position(),
                    self.progress.total(),
                ));
            }
        }
    }

    fn caught_up(&mut self) -> bool {
        self.changed = self.file_changed();
        if self.changed.is_some() {
            return false;
        }
        let made = self.made.as_ref();
        let is_settled = made.is_some_and(|made| made.events == self.replay.events);
        let now = (self.records, self.desk.on().ask);
        // Without new records and with an up-to-date table, the last frame stays.
        if self.shown != Some(now) || !is_settled {
            if self.shown.is_none() {
                // The past was read faster than it was recorded: a table that was made meanwhile is outdated.
                self.made = None;
            }
            self.publish(State::Running);
            self.shown = Some(now);
        } else {
            self.desk.ask();
        }
        self.desk.wait()
    }
}
