//! `gpumem-analyze timeline`.

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;
use gpumem_analyzer::ask::has_device;
use gpumem_analyzer::envelope::Envelope;
use gpumem_analyzer::render::{bytes, caveats, timeline_svg, timeline_text};
use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::views::{Timeline, TimelineBuilder};
use gpumem_capture::DeviceOrdinal;

use super::exit::Exit;
use super::moment::{PeakOf, has_events, moments_of, part, stretch};
use super::output::{Output, To, beside, file_name};
use super::read::Opened;
use super::view::Of;
use crate::selection::{Capture, LevelArg, moment};

/// Format of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TimelineFormat {
    /// A picture
    #[default]
    Svg,
    /// A chart for the terminal
    Text,
    /// JSON with integers
    Json,
}

/// `timeline`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file to write; `-`: standard output. Default: the capture's name with .timeline.svg for a picture,
    /// standard output for other formats
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: TimelineFormat,
    /// Show one level instead of all parts of the memory
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// Only the GPU with this ordinal
    #[arg(long, value_name = "N")]
    pub device: Option<u8>,
    /// Show only the part of the run from this point in time, in full detail: peak, end, oom, an event's number, a
    /// time (`1.5s`, `00:01.500`) or step=N (the end of step N). oom: the last out-of-memory exception, else the last
    /// failed allocation
    #[arg(long, value_name = "POINT", value_parser = moment)]
    pub from: Option<At>,
    /// Show only the part of the run up to this point in time
    #[arg(long, value_name = "POINT", value_parser = moment)]
    pub to: Option<At>,
    /// The capture.
    #[command(flatten)]
    pub capture: Capture,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.capture.path();
    let only = args.device.map(DeviceOrdinal);
    let level = args.level.map(Into::into);
    let peak = PeakOf {
        device: only,
        level,
    };
    let mut capture = Opened::open(file)?;
    let [from, to] = moments_of(&mut capture, [args.from, args.to], peak)?;
    let stretch = stretch(file, from, to)?;
    let mut builder = TimelineBuilder::of(stretch);
    let session = capture.read_with(Query::keeping_peaks(), &mut |replay, record, effect| {
        builder.observe(replay, record, effect);
    })?;
    if let Some(device) = args.device {
        has_device(&session, device)?;
    }
    has_events(file, stretch, session.replay.last_seq)?;
    let timeline = builder.finish(&session.replay, level, only);
    let part = part((args.from, args.to), stretch);
    let contents = match args.format {
        TimelineFormat::Json => {
            output.notes.caveats(&session);
            let of = Of {
                file,
                session: &session,
            };
            let envelope = Envelope {
                captures: &of.captures(),
                found: &timeline,
            };
            let mut json = serde_json::to_vec(&envelope)?;
            json.push(b'\n');
            json
        }
        TimelineFormat::Text => {
            let mut text = caveats(&session.account, output.terminal);
            if let Some(part) = &part {
                text.push_str(&format!("{part}\n"));
            }
            text.push_str(&timeline_text(&timeline, output.terminal));
            if timeline.devices.is_empty() {
                text.push_str("No memory was allocated.\n");
            }
            if args.output.is_none() {
                output.text(&text)?;
                return Ok(Exit::of(&session));
            }
            text.into_bytes()
        }
        TimelineFormat::Svg => {
            output.notes.caveats(&session);
            let heading = format!("Memory over time: {}", file_name(file));
            let what = session.title();
            let what = match &part {
                Some(part) => format!("{part}\n{what}"),
                None => what,
            };
            match timeline_svg(&timeline, &heading, &what) {
                Some(svg) => svg,
                None => bail!("{}: no memory was allocated", file.display()),
            }
        }
    };
    let to = To::new(args.output.as_deref(), || match args.format {
        TimelineFormat::Svg => beside(file, "timeline.svg"),
        _ => PathBuf::from("-"),
    });
    output.deliver(&to, &contents, &said(&timeline))?;
    Ok(Exit::of(&session))
}

/// The devices with their peaks, in one line.
fn said(timeline: &Timeline) -> String {
    let devices = timeline.devices.iter().filter_map(|device| {
        let (peak, ordinal) = (device.peak.as_ref()?, device.device?);
        Some(format!("GPU {ordinal} at its peak {}", bytes(peak.sum())))
    });
    let all: Vec<String> = devices.collect();
    match all.is_empty() {
        true => "host memory alone".into(),
        false => all.join(", "),
    }
}
