//! `gpumem-analyze timeline`.

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;
use gpumem_analyzer::render::{bytes, caveats, timeline_svg, timeline_text};
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{Timeline, TimelineBuilder};
use gpumem_capture::DeviceOrdinal;

use super::exit::{Exit, say_caveats};
use super::output::{Output, beside, file_name};
use super::read::read_with;
use crate::selection::{Capture, LevelArg};

/// How the timeline is given.
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
    /// Where to; `-` is standard output. A picture goes beside the capture by default, as .timeline.svg,
    /// the rest to standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// A picture, text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: TimelineFormat,
    /// One level alone, and not all parts of the memory
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// Only the GPU with this ordinal
    #[arg(long, value_name = "N")]
    pub device: Option<u8>,
    /// The capture.
    #[command(flatten)]
    pub capture: Capture,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.capture.path();
    let mut builder = TimelineBuilder::default();
    let session = read_with(
        file,
        Query::keeping_peaks(),
        &mut |replay, record, effect| {
            builder.observe(replay, record, effect);
        },
    )?;
    let only = args.device.map(DeviceOrdinal);
    let timeline = builder.finish(&session.replay, args.level.map(Into::into), only);
    let contents = match args.format {
        TimelineFormat::Json => {
            say_caveats(&session);
            let mut json = serde_json::to_vec(&timeline)?;
            json.push(b'\n');
            json
        }
        TimelineFormat::Text => {
            let mut text = caveats(&session.account, output.terminal);
            text.push_str(&timeline_text(&timeline, output.terminal));
            if timeline.devices.is_empty() {
                text.push_str("No memory was allocated.\n");
            }
            text.into_bytes()
        }
        TimelineFormat::Svg => {
            say_caveats(&session);
            let heading = format!("Memory over time: {}", file_name(file));
            let what = session.title();
            match timeline_svg(&timeline, &heading, &what) {
                Some(svg) => svg,
                None => bail!("{}: no memory was allocated", file.display()),
            }
        }
    };
    let to = match (&args.output, args.format) {
        (Some(path), _) => path.clone(),
        (None, TimelineFormat::Svg) => beside(file, "timeline.svg"),
        (None, _) => PathBuf::from("-"),
    };
    output.deliver(&to, &contents, &said(&timeline))?;
    Ok(Exit::of(&session))
}

/// The devices with their peaks, in a line.
fn said(timeline: &Timeline) -> String {
    let devices = timeline.devices.iter().filter_map(|device| {
        let (peak, ordinal) = (device.peak.as_ref()?, device.device?);
        Some(format!("GPU {ordinal} at most {}", bytes(peak.sum())))
    });
    let all: Vec<String> = devices.collect();
    match all.is_empty() {
        true => "host memory alone".into(),
        false => all.join(", "),
    }
}
