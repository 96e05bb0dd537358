//! The flamegraph of a job: the sum of all ranks, their mean, or a rank compared with its peers.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use anyhow::bail;
use gpumem_analyzer::ask::CaptureFile;
use gpumem_analyzer::ranks::{Job, RankRow};
use gpumem_analyzer::render::{FlameLook, Source, bytes, flamegraph, flamegraph_of_change};
use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::symbols::{PerfMap, Symbols};
use gpumem_analyzer::views::{ByStack, Differential, Folded, Folding, Select};
use gpumem_capture::{DeviceOrdinal, Level};

use crate::args::SymbolArgs;
use crate::commands::each::each_with;
use crate::commands::exit::explained;
use crate::commands::output::{Output, To};
use crate::commands::read::places;

/// The ranks of a flamegraph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OfArg {
    /// The sum of all ranks.
    #[default]
    Sum,
    /// The mean of all ranks.
    Mean,
    /// A rank, and its difference from its peers' mean.
    Rank(u64),
}

impl FromStr for OfArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sum" => Ok(Self::Sum),
            "mean" => Ok(Self::Mean),
            rank => rank
                .parse()
                .map(Self::Rank)
                .map_err(|_| "expected sum, mean or a rank's number".to_owned()),
        }
    }
}

/// The stacks that are drawn.
enum Stacks {
    Held(Folded),
    Change(Differential),
}

/// Draws it, with all frames if `native` is set.
pub fn draw(
    job: &Job,
    (of, native): (OfArg, bool),
    symbols: &SymbolArgs,
    named: &str,
    to: &Path,
    output: &mut Output<'_>,
) -> anyhow::Result<()> {
    let all: Vec<&RankRow> = job.ranks.iter().collect();
    let folding = Folding {
        native,
        ..Folding::default()
    };
    let (stacks, title, said) = match of {
        OfArg::Sum | OfArg::Mean => {
            let sum = stacks_of(&all, symbols, folding)?;
            let (folded, what) = match of {
                OfArg::Mean => (sum.mean(all.len() as u64), "the mean of"),
                _ => (sum, "the sum of"),
            };
            let when = format!("at their peaks, {what} {} ranks", all.len());
            let said = format!(
                "{} of tensors, {what} {} ranks",
                bytes(folded.bytes()),
                all.len()
            );
            let title = folded.title(Level::TENSOR, &when);
            (Stacks::Held(folded), title, said)
        }
        OfArg::Rank(rank) => {
            let (own, peers) = beside(job, rank)?;
            let after = stacks_of(&[own], symbols, folding)?;
            let before = stacks_of(&peers, symbols, folding)?.mean(peers.len() as u64);
            let differs = after.bytes() as i128 - before.bytes() as i128;
            let more = if differs < 0 { "less" } else { "more" };
            let said = format!(
                "rank {rank} has {} of tensors, {} {more} than its {} peers' mean",
                bytes(after.bytes()),
                bytes(differs.unsigned_abs() as u64),
                peers.len()
            );
            let title = format!("GPU memory of tensors at the peak: {said}");
            let change = Differential::of(&before, &after);
            (Stacks::Change(change), title, said)
        }
    };
    let red = matches!(of, OfArg::Rank(_)).then_some("red: more than the peers' mean, blue: less");
    let subtitle: Vec<&str> = std::iter::once(named).chain(red).collect();
    let look = FlameLook {
        title: &title,
        subtitle: &subtitle.join(" · "),
        ..FlameLook::default()
    };
    let drawn = match &stacks {
        Stacks::Held(held) => flamegraph(held, &look),
        Stacks::Change(change) => flamegraph_of_change(change, &look),
    };
    let Some(svg) = drawn else {
        bail!("no rank allocated tensors, so there is no flamegraph");
    };
    output.deliver(&To::named(to), &svg, &said)
}

/// A rank, and the others of its group.
fn beside(job: &Job, rank: u64) -> anyhow::Result<(&RankRow, Vec<&RankRow>)> {
    let row = |rank: &u64| job.ranks.iter().find(|row| row.rank == *rank);
    let Some(own) = row(&rank) else {
        bail!("rank {rank} has no capture: name one of those that `ranks --all` shows");
    };
    let group = job.groups.iter().find(|group| group.ranks.contains(&rank));
    let others = group.into_iter().flat_map(|group| &group.ranks);
    let peers: Vec<_> = others.filter(|of| **of != rank).filter_map(row).collect();
    if peers.is_empty() {
        bail!("rank {rank} has no peers: there is nothing to compare it with");
    }
    Ok((own, peers))
}

/// The sum of the stacks of ranks at the peaks of their tensors; captures are read in parallel.
fn stacks_of(ranks: &[&RankRow], asked: &SymbolArgs, folding: Folding) -> anyhow::Result<Folded> {
    let files: Vec<(&PathBuf, Option<u8>)> =
        ranks.iter().map(|row| (&row.file, row.device)).collect();
    let sum = Mutex::new(Ok(Folded::default()));
    let symbols = || Symbols::new(places(asked), PerfMap::default());
    each_with(
        &files,
        "reading stacks",
        symbols,
        |symbols, (path, device)| {
            let folded = stacks(path, *device, symbols, folding);
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            match (&mut *sum, folded) {
                (Ok(sum), Ok(folded)) => sum.add(folded),
                (Ok(_), Err(error)) => *sum = Err(error),
                (Err(_), _) => {}
            }
        },
    );
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn stacks(
    path: &Path,
    device: Option<u8>,
    symbols: &mut Symbols,
    folding: Folding,
) -> anyhow::Result<Folded> {
    let session = CaptureFile::open(path).and_then(|mut capture| capture.read(Query::default()));
    let session = session.map_err(|error| explained(path, &error))?;
    let select = Select {
        device: device.map(DeviceOrdinal),
        ..Select::default()
    };
    let held = ByStack::at(&session.replay, Level::TENSOR, At::Peak, &select);
    symbols.begin_capture(PerfMap::of(path, &session.header));
    let mut source = Source::new(&session.replay.names, &session.header);
    let mut text = |file: &str, line: u32| source.whole_line(file, line).to_owned();
    Ok(Folded::of(
        &session.replay,
        symbols,
        &held,
        folding,
        &mut text,
    ))
}
