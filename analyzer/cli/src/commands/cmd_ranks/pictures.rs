//! Pictures of a job: rank by time, the page, the flamegraph.

use std::path::PathBuf;

use clap::ValueEnum;
use gpumem_analyzer::envelope::{Body, Captures, Form, Heads, View};
use gpumem_analyzer::ranks::{Heatmap, Job, Part};
use gpumem_analyzer::render::{Cells, bytes, ranks_page, ranks_timeline_text};
use schemars::JsonSchema;
use serde::Serialize;

use super::flamegraph::{OfArg, draw as draw_flamegraph};
use crate::args::{Format, SymbolArgs};
use crate::commands::output::{Output, To};

/// The number of points that are kept of each rank.
const COLUMNS: usize = 256;
/// The same for jobs with more captures than this.
const FEWER: usize = 128;
const MANY: usize = 1500;

/// Which memory a timeline shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PartArg {
    /// Tensors
    #[default]
    Tensors,
    /// Memory that PyTorch's allocator has reserved
    Reserved,
    /// All memory of the process on its GPU
    Process,
}

/// Pictures of a job.
#[derive(clap::Args, Debug)]
pub struct Pictures {
    /// Show the memory of ranks over time: one row for each rank, or for several in large jobs
    #[arg(long, conflicts_with_all = ["output", "flamegraph"])]
    pub timeline: bool,
    /// Which memory the timeline shows
    #[arg(long, value_enum, requires = "timeline")]
    pub level: Option<PartArg>,
    /// Write a page for a browser, which makes no network requests; `-`: standard output
    #[arg(short, long, value_name = "OUT.html", conflicts_with_all = ["flamegraph", "format"])]
    pub output: Option<PathBuf>,
    /// Write a flamegraph of tensors at each rank's peak; `-`: standard output
    #[arg(long, value_name = "OUT.svg", conflicts_with = "format")]
    pub flamegraph: Option<PathBuf>,
    /// Which ranks the flamegraph shows: the `sum` of all, their `mean`, or one rank by its number, with its
    /// difference from the mean of its peers (red: more, blue: less)
    #[arg(long, value_name = "sum|mean|RANK", requires = "flamegraph")]
    pub of: Option<OfArg>,
    /// Show all frames in the flamegraph: also native frames below Python frames, and frames that only forward a call
    #[arg(long, requires = "flamegraph")]
    pub native: bool,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
}

impl Pictures {
    /// Whether any picture is requested.
    pub fn any(&self) -> bool {
        self.timeline || self.output.is_some() || self.flamegraph.is_some()
    }

    /// The number of points that are kept of each capture.
    pub fn columns(&self, captures: usize) -> Option<usize> {
        let wanted = self.timeline || self.output.is_some();
        wanted.then_some(if captures > MANY { FEWER } else { COLUMNS })
    }

    /// Draws it.
    pub fn draw(
        &self,
        job: &Job,
        (named, format): (&str, Format),
        output: &mut Output<'_>,
    ) -> anyhow::Result<()> {
        if let Some(to) = &self.flamegraph {
            let of = self.of.unwrap_or_default();
            return draw_flamegraph(job, (of, self.native), &self.symbols, named, to, output);
        }
        if let Some(to) = &self.output {
            let html = ranks_page(job, named)?;
            let said = format!("{}; open it in a browser", bytes(html.len() as u64));
            return output.deliver(&To::named(to), html.as_bytes(), &said);
        }
        let map = job.heatmap(COLUMNS);
        match format {
            Format::Json => output.json(
                &Captures::InBody,
                &WithTimeline {
                    job,
                    timeline: &map,
                },
            ),
            Format::Text => {
                let terminal = output.terminal;
                let cells = Cells::of(terminal, |name| std::env::var(name).ok());
                let part = match self.level.unwrap_or_default() {
                    PartArg::Tensors => Part::Tensors,
                    PartArg::Reserved => Part::Reserved,
                    PartArg::Process => Part::Process,
                };
                output.text(&ranks_timeline_text(job, &map, part, cells, terminal))
            }
        }
    }
}

/// The ranks of a job, and their memory over time.
#[derive(Serialize, JsonSchema)]
pub struct WithTimeline<'a> {
    #[serde(flatten)]
    job: &'a Job,
    /// Memory of each rank over time.
    timeline: &'a Heatmap,
}

impl View for WithTimeline<'_> {
    const FORM: Form = Form {
        name: "ranks-timeline",
        body: Body::Data,
        heads: Heads::None,
    };
}
