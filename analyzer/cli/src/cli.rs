//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::args::{ColourArg, Format, SymbolArgs};
use crate::commands::{
    cmd_changes, cmd_check, cmd_diff, cmd_export, cmd_flamegraph, cmd_fragmentation, cmd_hints,
    cmd_html, cmd_import, cmd_leaks, cmd_ledger, cmd_lines, cmd_oom, cmd_ranks, cmd_recover,
    cmd_scopes, cmd_sizes, cmd_summary, cmd_symbolize, cmd_temporary, cmd_threads, cmd_timeline,
    cmd_tree,
};
#[cfg(feature = "full")]
use crate::commands::{cmd_ci, cmd_exporter, cmd_fleet, cmd_live, cmd_mcp};

const EXIT_CODES: &str = "\
Exit codes:
  0  complete: nothing is missing from the result
  1  no result: the file cannot be read as a capture
  2  the command line is wrong
  3  partial: a result was printed, and what is missing is said first
  4  ci: a limit was broken";

const EXAMPLES: &str = "\
Examples:
  LD_PRELOAD=libgpumem.so python train.py    # writes report.bin
  gpumem-analyze report.bin                  # the report, and report.svg beside it
  gpumem-analyze lines --at end report.bin   # who still holds memory at the end
  gpumem-analyze summary --format json report.bin";

/// Tells where a program's GPU memory went, from the report.bin that libgpumem.so wrote.
///
/// Bytes are shown as KiB, MiB, GiB (steps of 1024); JSON carries plain integers.
#[derive(Debug, Parser)]
#[command(name = "gpumem-analyze", version)]
#[command(arg_required_else_help = true, subcommand_negates_reqs = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Cli {
    /// The capture to report on
    #[arg(required = true)]
    pub file: Option<PathBuf>,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// The report as text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// When to colour: also NO_COLOR, FORCE_COLOR
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        alias = "colour"
    )]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub color: ColourArg,
    /// One view alone, or another task.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What ran and what each GPU held: live, peak, allocations and frees by level
    #[command(after_help = "Examples:\n  gpumem-analyze summary report.bin\n  \
        gpumem-analyze summary --format json report.bin | jq '.data.devices[0].tensor.peak_bytes'")]
    Summary(cmd_summary::Args),
    /// The lines of code that own the memory at a moment
    #[command(after_help = "Examples:\n  gpumem-analyze lines report.bin\n  \
        gpumem-analyze lines --level driver --at end report.bin\n  \
        gpumem-analyze lines --phase backward --step 12 report.bin\n  \
        gpumem-analyze lines --at 21334 --format json report.bin\n\n\
        The rows of all phases sum to the level's own figure at that moment, or the step's.")]
    Lines(cmd_lines::Args),
    /// What each GPU's memory consists of at a moment; the parts sum to what NVML saw
    #[command(after_help = "Examples:\n  gpumem-analyze ledger report.bin\n  \
        gpumem-analyze ledger --by owner --at end report.bin\n  \
        gpumem-analyze ledger --segments report.bin    # which lines pin PyTorch's pool\n  \
        gpumem-analyze ledger --at peak=physical --format json report.bin")]
    Ledger(cmd_ledger::Args),
    /// What stays alive from step to step of a training: lines that grow, caches, the warm-up
    #[command(after_help = "Examples:\n  gpumem-analyze leaks report.bin\n  \
        gpumem-analyze leaks --steps 10 --file train.py report.bin\n  \
        gpumem-analyze leaks --at end --format json report.bin | jq '.data.rows[] | select(.class == \"growing\")'")]
    Leaks(cmd_leaks::Args),
    /// Blocks that are freed again at once, by line: what could be reused or made in place
    #[command(after_help = "Examples:\n  gpumem-analyze temporary report.bin\n  \
        gpumem-analyze temporary --within 10 --size 1MiB.. report.bin\n  \
        gpumem-analyze temporary --within-ms 2.5 --format json report.bin")]
    Temporary(cmd_temporary::Args),
    /// What of PyTorch's pool is free and in which pieces: a map of its segments, and over time
    #[command(
        after_help = "Examples:\n  gpumem-analyze fragmentation report.bin\n  \
        gpumem-analyze fragmentation --at end --request 512MiB report.bin\n  \
        gpumem-analyze fragmentation --format json report.bin | jq '.rows[].reserved_peak'"
    )]
    Fragmentation(cmd_fragmentation::Args),
    /// How large blocks are: allocated, and live at a moment, by powers of two
    #[command(after_help = "Examples:\n  gpumem-analyze sizes report.bin\n  \
        gpumem-analyze sizes --exact --at end report.bin\n  \
        gpumem-analyze sizes --function forward --format json report.bin")]
    Sizes(cmd_sizes::Args),
    /// Which thread allocated and freed how much, and whose blocks are live at a moment
    #[command(after_help = "Examples:\n  gpumem-analyze threads report.bin\n  \
        gpumem-analyze threads --level driver --at end report.bin\n  \
        gpumem-analyze threads --format json report.bin | jq '.rows[0].rows[0].name'")]
    Threads(cmd_threads::Args),
    /// A view in the terminal of a program that runs: what its memory holds now
    #[command(after_help = "Examples:\n  gpumem-analyze live report.bin\n  \
        gpumem-analyze live 4711                     # the program with that number\n\n\
        Nothing is asked of the program, which goes on when you leave. ? tells the keys.")]
    #[cfg(feature = "full")]
    Live(cmd_live::Args),
    /// What the program's own scopes added, and their peaks; and the moments that it marked
    #[command(after_help = "Examples:\n  gpumem-analyze scopes report.bin\n  \
        gpumem-analyze scopes --each --level driver report.bin\n  \
        gpumem-analyze scopes --format json report.bin | jq '.data.names[0]'")]
    Scopes(cmd_scopes::Args),
    /// Allocations that failed for want of memory: the cause, and who held what
    #[command(after_help = "Examples:\n  gpumem-analyze oom report.bin\n  \
        gpumem-analyze oom --failure 1 report.bin\n  \
        gpumem-analyze oom --format json report.bin | jq '.data.failures[].line'")]
    Oom(cmd_oom::Args),
    /// What each line of the script changed, in the manner of gpu_mem_track
    #[command(
        after_help = "Examples:\n  gpumem-analyze changes report.bin | less\n  \
        gpumem-analyze changes --level driver report.bin\n  \
        gpumem-analyze changes --format json report.bin"
    )]
    Changes(cmd_changes::Args),
    /// What two captures differ by, line by line: runs, ranks, or two moments of one run
    #[command(
        after_help = "Examples:\n  gpumem-analyze diff before.bin after.bin\n  \
        gpumem-analyze diff --by function --level driver before.bin after.bin\n  \
        gpumem-analyze diff report.rank0.bin report.rank1.bin\n  \
        gpumem-analyze diff --at step=1 --to end report.bin report.bin\n\n\
        The rows sum to each capture's own figure."
    )]
    Diff(cmd_diff::Args),
    /// Peaks of a change compared with those before it, judged by limits and budgets: a comment for CI
    #[command(
        after_help = "Examples:\n  gpumem-analyze ci --base base.bin --head head.bin --fail-over 2%\n  \
        gpumem-analyze ci --base main/ --head pr/ --fail-over 64MiB --comment comment.md\n  \
        gpumem-analyze ci --head pr/                    # the budgets of gpumem.toml alone\n  \
        gpumem-analyze ci --head main/ --history .gpumem/history --trend trend.svg\n\n\
        Exit code 4: a limit or budget was broken; 3: a capture is partial and was not judged."
    )]
    #[cfg(feature = "full")]
    Ci(cmd_ci::Args),
    /// Which rank of a job differs from its peers, by which lines, and since which step
    #[command(
        after_help = "Examples:\n  gpumem-analyze ranks run/               # a folder with all ranks' captures\n  \
        gpumem-analyze ranks --mesh pp=2,dp=4,tp=2 run/\n  \
        gpumem-analyze ranks --format json run/ | jq '.data.outliers[].rank'"
    )]
    Ranks(cmd_ranks::Args),
    /// A dataset of many captures
    #[cfg(feature = "full")]
    Fleet(cmd_fleet::Args),
    /// A picture of all stacks, as wide as the bytes they own
    #[command(
        after_help = "Examples:\n  gpumem-analyze flamegraph report.bin          # writes report.svg\n  \
        gpumem-analyze flamegraph --at end -o end.svg report.bin\n  \
        gpumem-analyze flamegraph --folded report.bin | sort -k2\n  \
        gpumem-analyze flamegraph --from step=2 --at step=20 report.bin\n  \
        gpumem-analyze flamegraph --diff before.bin --icicle report.bin\n  \
        gpumem-analyze flamegraph --native --colour-by category report.bin\n\n\
        The widths sum to the level's figure at that moment. The same capture gives the same bytes."
    )]
    Flamegraph(cmd_flamegraph::Args),
    /// What could be done about the memory, with the evidence
    #[command(after_help = "Examples:\n  gpumem-analyze hints report.bin\n  \
        gpumem-analyze hints --format json report.bin | jq '.rows[].advice'")]
    Hints(cmd_hints::Args),
    /// Memory over time: what tensors, PyTorch's cache, libraries and the rest held
    #[command(
        after_help = "Examples:\n  gpumem-analyze timeline report.bin     # writes report.timeline.svg\n  \
        gpumem-analyze timeline --format text report.bin\n  \
        gpumem-analyze timeline --level driver --device 1 -o gpu1.svg report.bin\n  \
        gpumem-analyze timeline --format json report.bin | jq '.data.devices[0].peak'\n\n\
        Peaks are exact, however long the run."
    )]
    Timeline(cmd_timeline::Args),
    /// One page for a browser: timeline, flamegraph, lines, ledger and pool, at many moments
    #[command(
        after_help = "Examples:\n  gpumem-analyze html report.bin          # writes report.html\n  \
        gpumem-analyze html -o page.html report.bin\n  \
        gpumem-analyze html --rank 3 report.bin\n  \
        gpumem-analyze html --from step=3 --to step=4 -o step.html report.bin\n\n\
        The file has at most 5 MB and needs no network."
    )]
    Html(cmd_html::Args),
    /// The calls that own memory, as a tree
    #[command(after_help = "Examples:\n  gpumem-analyze tree report.bin\n  \
        gpumem-analyze tree --native --least 5 report.bin\n  \
        gpumem-analyze tree --at end --format json report.bin")]
    Tree(cmd_tree::Args),
    /// The same figures in the formats of other programs
    #[command(
        after_help = "Examples:\n  gpumem-analyze export pprof report.bin          # writes report.pb.gz\n  \
        gpumem-analyze export speedscope --at end -o end.json report.bin\n  \
        gpumem-analyze export perfetto report.bin       # for ui.perfetto.dev\n  \
        gpumem-analyze export csv --level tensor -o - report.bin | head\n\n\
        docs/commands/export.md says what each format holds, and what opens it."
    )]
    Export(cmd_export::Args),
    /// Names of native functions embedded in a copy, for people who have none of the libraries
    #[command(
        after_help = "Examples:\n  gpumem-analyze symbolize report.bin -o for-you.bin\n  \
        gpumem-analyze symbolize report.bin -o report.bin    # in its own place\n  \
        gpumem-analyze symbolize --symbols from-the-node/ report.bin -o named.bin\n\n\
        The copy says all that the capture said, its damage included. Nothing is fetched from a network."
    )]
    Symbolize(cmd_symbolize::Args),
    /// What a killed process left in memory, taken over into its capture, as every command does by itself
    #[command(after_help = "Examples:\n  gpumem-analyze recover report.bin\n  \
        gpumem-analyze recover --ring /dev/fd/5 report.bin    # a ring that was held open")]
    Recover(cmd_recover::Args),
    /// A capture made from what another tool has recorded, for all views
    #[command(
        after_help = "Examples:\n  python -c 'torch.cuda.memory._dump_snapshot(\"dump.pickle\")'    # in the program\n  \
        gpumem-analyze import torch-snapshot dump.pickle -o dump.bin\n  \
        gpumem-analyze dump.bin\n\n\
        Nothing of the file is run. The figures are the snapshot's own, to the byte."
    )]
    Import(cmd_import::Args),
    /// Whether a capture is whole: exit 0 whole, 3 damaged, with what was lost
    #[command(after_help = "Examples:\n  gpumem-analyze check report.bin\n  \
        gpumem-analyze check --format json report.bin")]
    Check(cmd_check::Args),
    /// A Model Context Protocol server on standard input and output, for assistants
    #[command(
        after_help = "Examples:\n  gpumem-analyze mcp                  # captures below the current folder\n  \
        gpumem-analyze mcp --root runs/ --root src/\n\n\
        An assistant's client starts it: docs/commands/mcp.md has its configuration. Nothing is written."
    )]
    #[cfg(feature = "full")]
    Mcp(cmd_mcp::Args),
    /// Metrics of running programs for Prometheus: what each holds, its peak, leaks, failures
    #[command(
        after_help = "Examples:\n  gpumem-analyze exporter --captures '/run/gpumem/*'\n  \
        gpumem-analyze exporter --listen 0.0.0.0:9841 --allow-remote --captures runs/\n\n\
        It runs until it is killed. docs/commands/exporter.md has the metrics, a dashboard and alerts."
    )]
    #[cfg(feature = "full")]
    Exporter(cmd_exporter::Args),
    /// Completions for a shell, on standard output
    #[command(after_help = "Examples:\n  gpumem-analyze completions bash > \
        ~/.local/share/bash-completion/completions/gpumem-analyze")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Manual pages: one for each command
    #[command(after_help = "Examples:\n  gpumem-analyze man | man -l -\n  \
        gpumem-analyze man lines | man -l -\n  \
        gpumem-analyze man -o ~/.local/share/man/man1    # then: man gpumem-analyze-lines")]
    Man {
        /// The command, as `lines` or `fleet ingest`; by default gpumem-analyze itself
        command: Vec<String>,
        /// Write the pages of all commands into this folder
        #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
        output: Option<PathBuf>,
    },
}
