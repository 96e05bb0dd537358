//! Takes the records of a capture, and makes frames of what they add up to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpumem_analyzer::ranks::{Buckets, CourseWatch};
use gpumem_analyzer::replay::{Query, Replay};
use gpumem_capture::{Follow, Header, Progress, Record};

use crate::ask::Ask;
use crate::desk::Desk;
use crate::frame::{self, Frame, State, Table};
use crate::growth::StepGrowth;

/// A bucket of the course is at first 2^20 ns wide, about a millisecond.
const BUCKETS: Buckets = Buckets {
    unit_ns: 1,
    narrowest: 20,
    most: 512,
};

/// So many records are taken between two looks at the clock.
const RECORDS: u32 = 4096;

/// The table is made anew this often while the program runs: names and sums of all stacks cost more than the rest.
const TABLE_EVERY: Duration = Duration::from_millis(500);

pub(crate) struct Follower {
    header: Header,
    progress: Progress,
    desk: Arc<Desk>,
    replay: Replay,
    course: CourseWatch,
    growth: StepGrowth,
    lost: Option<u64>,
    /// Records since the clock was looked at.
    since: u32,
    published: Instant,
    /// The newest table, what was asked for it, when it was made and at which event.
    table: Option<(Arc<Table>, Ask, Instant, u64)>,
}

impl Follower {
    pub(crate) fn new(header: Header, progress: Progress, desk: Arc<Desk>) -> Self {
        Self {
            course: CourseWatch::new(header.started_wall_ns, BUCKETS),
            replay: Replay::new(Query::default()),
            growth: StepGrowth::default(),
            lost: None,
            header,
            progress,
            desk,
            since: 0,
            published: Instant::now(),
            table: None,
        }
    }

    /// Makes a frame and lays it out.
    pub(crate) fn publish(&mut self, state: State) {
        self.published = Instant::now();
        let ask = self.desk.ask();
        let is_final = !matches!(state, State::CatchingUp(..) | State::Running);
        if is_final {
            // Of what is live now the program's later use would tell more.
            self.replay.settle_categories();
        }
        let table = self.table(ask, is_final);
        let replay = &self.replay;
        let course = self.course.so_far();
        let frame = Frame {
            seq: replay.last_seq,
            time: replay.last,
            events: replay.events,
            state,
            command: replay.names.command().map(str::to_owned),
            pid: self.header.pid,
            process: frame::process(replay),
            started_unix_ns: self.header.started_wall_ns,
            lost: self.lost,
            devices: frame::devices(replay, &self.growth),
            course: course.map(|(on, of)| (on, of.clone())).collect(),
            steps: replay.spans.steps,
            at: frame::at(replay),
            failure_count: replay.failures.count(),
            failures: frame::failures(replay),
            ask,
            table,
        };
        self.desk.lay_out(frame);
    }

    /// The table, as new as it may be.
    fn table(&mut self, ask: Ask, is_final: bool) -> Arc<Table> {
        let events = self.replay.events;
        if let Some((table, asked, made, at)) = &self.table
            && *asked == ask
            && (*at == events || (!is_final && made.elapsed() < TABLE_EVERY))
        {
            return table.clone();
        }
        let table = Arc::new(frame::table(&self.replay, ask));
        self.table = Some((table.clone(), ask, Instant::now(), events));
        table
    }

    /// Takes in how many events the recorder has lost.
    pub(crate) fn lost(&mut self, events: u64) {
        self.lost = Some(events);
    }

    /// How the program has ended, by its capture.
    pub(crate) fn ending(&self, header: &Header) -> State {
        frame::ending(header, self.replay.last)
    }
}

impl Follow for Follower {
    fn record(&mut self, record: Record<'_>) {
        if matches!(record, Record::State(..)) && self.replay.events > 0 {
            // It stands for all before.
            self.replay = Replay::new(Query::default());
            self.course = CourseWatch::new(self.header.started_wall_ns, BUCKETS);
            self.growth = StepGrowth::default();
        }
        self.replay.feed(record);
        self.course.observe(&self.replay, &record);
        self.growth.observe(&self.replay);
        self.since += 1;
        if self.since >= RECORDS {
            self.since = 0;
            if self.published.elapsed() >= self.desk.every() {
                self.publish(State::CatchingUp(
                    self.progress.position(),
                    self.progress.total(),
                ));
            }
        }
    }

    fn caught_up(&mut self) -> bool {
        self.publish(State::Running);
        self.desk.wait()
    }
}
