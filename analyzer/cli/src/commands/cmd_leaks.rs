//! `gpumem-analyze leaks`.

use std::path::PathBuf;

use gpumem_analyzer::ask::survivors;
use gpumem_analyzer::render::leaks_text;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::{LEAST_STEPS, WARM_UP_STEPS};

use super::exit::Exit;
use super::output::Output;
use super::read::Opened;
use super::view::{Of, print};
use crate::args::Format;
use crate::selection::{Part, moment};

/// `leaks`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The point in time: end, oom, an event's number, a time (`1.5s`, `00:01.500`) or step=N (the end of step N).
    /// Default: the end of the last step or round, because a program frees much memory when it exits
    #[arg(long, value_name = "POINT", value_parser = not_the_peak)]
    pub at: Option<At>,
    /// Count a block as kept only if it stayed live over the ends of at least K steps or rounds
    #[arg(long, value_name = "K", default_value_t = LEAST_STEPS, value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: u64,
    /// The last step or round of the warm-up
    #[arg(long, value_name = "N", default_value_t = WARM_UP_STEPS)]
    pub warm_up: u64,
    /// Of what.
    #[command(flatten)]
    pub part: Part,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Reads a point in time that is known before the capture is read.
fn not_the_peak(text: &str) -> Result<At, String> {
    match moment(text)? {
        At::Peak => Err(
            "expected end, oom, an event's number, a time or step=N: use lines for the peak".into(),
        ),
        moment => Ok(moment),
    }
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.part.capture(&args.file);
    let ages = (args.steps, args.warm_up);
    let wanted = args.part.wanted_of_events()?;
    let (session, survivors, at) = survivors(&mut Opened::open(file)?, &wanted, args.at, ages)?;
    let leaks = survivors.leaks(&session.replay);
    output
        .notes
        .mismatches(&leaks.mismatches, "lines", leaks.level);
    let when = at + &args.part.said();
    let of = Of {
        file,
        session: &session,
    };
    print(output, of, args.format, &leaks, |source, terminal| {
        leaks_text(&session.replay, &leaks, &when, source, terminal)
    })?;
    Ok(if leaks.mismatches.is_empty() {
        Exit::of(&session)
    } else {
        Exit::Partial
    })
}
