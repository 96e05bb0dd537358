//! `gpumem-analyze html`: one self-contained HTML page.

use std::path::{Path, PathBuf};

use anyhow::bail;
use gpumem_analyzer::ask::SecondPass;
use gpumem_analyzer::render::{
    Source, Terminal, WENT_ON, account_lines, bytes, count, failure_text, page_html, what_ran,
};
use gpumem_analyzer::replay::{At, Query, Replay};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{
    Asked, FollowBlocks, HintWatch, Hints, LastRound, Moment, MomentKind, Moments, Page, PageHead,
    PageLimits, PageSources, Room, Stretch, Summary, TimelineBuilder,
};
use gpumem_analyzer::watch::Both;
use gpumem_capture::Record;

use super::exit::Exit;
use super::moment::{PeakOf, has_events, moments_of, part, stretch};
use super::output::{Output, To, beside, file_name};
use super::read::{Opened, symbols};
use crate::args::SymbolArgs;
use crate::selection::{Capture, moment};

/// The most bytes of a page.
const LARGEST: usize = 5_000_000;

/// The most blocks that are kept of each level, shared among the devices.
const ROOM: Room = Room {
    run: 120_000,
    stretch: 20_000,
};

/// `html`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file to write; `-`: standard output. Default: the capture's name with .html
    #[arg(short, long, value_name = "OUT.html")]
    pub output: Option<PathBuf>,
    /// The point in time that the page opens at: peak (of each GPU), end, oom (the last out-of-memory exception, else
    /// the last failed allocation), an event's number, a time (`1.5s`, `00:01.500`) or step=N (the end of step N)
    #[arg(long, value_name = "POINT", default_value = "peak", value_parser = moment)]
    pub at: At,
    /// Show only the part of the run from this point in time, in full detail. Values as for --at
    #[arg(long, value_name = "POINT", value_parser = moment)]
    pub from: Option<At>,
    /// Show only the part of the run up to this point in time
    #[arg(long, value_name = "POINT", value_parser = moment)]
    pub to: Option<At>,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// The capture.
    #[command(flatten)]
    pub capture: Capture,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.capture.path();
    let mut capture = Opened::open(file)?;
    let at = Some(args.at).filter(|at| !matches!(at, At::Peak | At::End));
    let points = [args.from, args.to, at];
    let [from, to, at] = moments_of(&mut capture, points, PeakOf::default())?;
    let stretch = stretch(file, from, to)?;
    let mut builder = TimelineBuilder::of(stretch);
    let mut watch = HintWatch::default();
    let session = capture.read_with(Query::keeping_peaks(), &mut |replay, record, effect| {
        builder.observe(replay, record, effect);
        watch.observe(replay, record, effect);
    })?;
    watch.finish();
    let replay = &session.replay;
    has_events(file, stretch, replay.last_seq)?;
    let timeline = builder.finish(replay, None, None);
    let mut moments = match stretch.is_whole() {
        true => Moments::choose(replay, &timeline),
        false => Moments::of_stretch(replay, &timeline, stretch),
    };
    let shown = shown(file, (args.at, at), stretch, replay)?;
    if let Some(shown) = shown {
        moments.also(MomentKind::Asked, shown);
    }
    let mut blocks = FollowBlocks::choose(replay, &moments, ROOM, stretch);
    let mut last_round = LastRound::of(replay, watch.rounds(replay));
    let failure = replay.main_failure();
    let at_failure = failure.map(|(_, failure)| At::Event(failure.seq).into());
    let query = Moments::second(replay, at_failure);
    let mut second = SecondPass::after(&session)
        .ledgers(Asked::default())
        .cause(failure.filter(|_| query.is_some()));
    let mut observed = |replay: &Replay, record: Record<'_>, effect| {
        moments.observe(replay, record);
        blocks.observe(replay, record, effect);
        last_round.observe(replay, record, effect);
    };
    let query = query.unwrap_or(At::End.into());
    let last = capture.read_watched(query, &mut Both(&mut second, &mut observed))?;
    let blocks = blocks.finish(&last.replay);
    let leaks = last_round.finish(&last.replay);
    let later = second.finish(Some(&last.replay), None);
    drop(last);
    let moments = moments.finish();
    let ledgers = later.ledgers.concat();
    let cause = match (failure, later.cause) {
        (Some(_), None) => {
            let third = SecondPass::after(&session).cause(failure);
            capture.read_later(third, None)?.cause
        }
        (_, cause) => cause,
    };
    let sources = PageSources {
        replay,
        timeline: &timeline,
        moments: &moments,
        blocks: &blocks,
        ledgers: &ledgers,
        cause: cause.as_ref(),
        // The cause of the failure comes before all hints.
        hints: &Hints::of(&session, cause.as_ref(), &ledgers, &watch, None).beside_cause(),
        leaks: leaks.as_ref(),
        stretch,
        shown,
    };
    let (mut symbols, bar) = symbols(file, &session, &args.symbols);
    let mut source = Source::new(&replay.names, &session.header);
    let mut head = head(file, &session);
    if let Some(failed) = &mut head.failed
        && cause.as_ref().is_some_and(|cause| cause.survived)
    {
        failed.push_str(WENT_ON);
    }
    head.part = part((args.from, args.to), stretch);
    let mut limits = PageLimits::default();
    let html = loop {
        let mut text = |file: &str, line: u32| source.line(file, line);
        let page = Page::of(&head, &sources, &mut symbols, &mut text, limits);
        let html = page_html(&page)?;
        if html.len() <= LARGEST {
            break html;
        }
        if limits == limits.less() {
            bail!(
                "{}: the page would have {} bytes",
                file.display(),
                count(html.len() as u64)
            );
        }
        limits = limits.less();
    };
    drop(bar);
    output.notes.caveats(&session);
    let to = To::new(args.output.as_deref(), || beside(file, "html"));
    let said = format!("{}; open it in a browser", bytes(html.len() as u64));
    output.deliver(&to, html.as_bytes(), &said)?;
    Ok(Exit::of(&session))
}

fn head(file: &Path, session: &Session) -> PageHead {
    let plain = Terminal::PLAIN;
    let name = file_name(file);
    let ran = what_ran("", &Summary::of(session), plain);
    let account = account_lines(&session.account, plain);
    let lines = account.lines().map(|line| {
        let line = line.strip_prefix("account").unwrap_or(line);
        line.trim().to_owned()
    });
    let sampled = session.account.sampled();
    let main = session.replay.main_failure();
    PageHead {
        file: name,
        ran: ran
            .trim()
            .replace("\nreplay       ", " · replay ")
            .replace("\nposition     ", " · ")
            .replace("\njob          ", " · ")
            .replace("\n             ", " · ")
            .replace("\nlimit        ", " · "),
        exact: session.account.is_exact(),
        account: sampled.into_iter().chain(lines).collect(),
        missing: session.account.missing.clone(),
        failed: main.map(|(_, failure)| failure_text(&session.replay, &failure)),
        part: None,
    }
}

/// The event of the point in time to show first; `None`: the peak.
fn shown(
    file: &Path,
    (at, moment): (At, Option<Moment>),
    stretch: Stretch,
    replay: &Replay,
) -> anyhow::Result<Option<u64>> {
    if at == At::Peak {
        return Ok(None);
    }
    let end = Moment {
        seq: replay.last_seq,
        time: replay.last,
    };
    let found = moment.or(stretch.to).unwrap_or(end);
    let begin = stretch.from.map_or(0, |from| from.seq.0);
    let end = stretch.to.map_or(replay.last_seq, |to| to.seq).0;
    if !(begin..=end).contains(&found.seq.0) {
        bail!(
            "{}: --at is event {}, outside of --from and --to (events {begin} to {end}): name an event between them",
            file.display(),
            found.seq.0
        );
    }
    Ok(Some(found.seq.0))
}
