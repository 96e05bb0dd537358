//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::args::{CodeArgs, ColourArg, Format, SourceArgs, SymbolArgs, budget};
use crate::commands::generate::{Generated, generated};
use crate::commands::{
    cmd_changes, cmd_check, cmd_diff, cmd_export, cmd_flamegraph, cmd_html, cmd_import, cmd_leaks,
    cmd_ledger, cmd_lines, cmd_oom, cmd_ranks, cmd_report, cmd_timeline, cmd_tree,
};
#[cfg(feature = "full")]
use crate::commands::{cmd_ci, cmd_fleet, cmd_live, cmd_mcp};

const EXIT_CODES: &str = "\
Exit codes:
  0  complete: no data is missing from the result
  1  no result: the file cannot be read as a capture
  2  the command line is wrong
  3  partial: the result is printed, after a list of the missing data
  4  ci: a limit or a budget is exceeded";

const EXAMPLES: &str = "\
Examples:
  gpumem run train.py                        # writes report.bin; without Python: LD_PRELOAD=/path/to/libgpumem.so
  gpumem-analyze report.bin                  # the report; also writes report.svg
  gpumem-analyze lines --at end report.bin   # which lines hold memory at the end
  gpumem-analyze report --format json report.bin
  gpumem-analyze --generate man-lines | man -l -
  gpumem-analyze --generate man -o ~/.local/share/man/man1    # then: man gpumem-analyze-lines
  gpumem-analyze --generate complete-bash > ~/.local/share/bash-completion/completions/gpumem-analyze";

/// Shows where a program's GPU memory went, from the report.bin that libgpumem.so wrote.
///
/// Text shows bytes as KiB, MiB and GiB (steps of 1024); JSON has plain integers.
#[derive(Debug, Parser)]
#[command(name = "gpumem-analyze", version)]
#[command(arg_required_else_help = true, subcommand_negates_reqs = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Cli {
    /// The capture to report on
    #[arg(required_unless_present = "generate")]
    pub file: Option<PathBuf>,
    /// Where names are searched for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// The report as text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// When to use colour: auto, always or never. Also NO_COLOR, FORCE_COLOR
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
    /// The memory to use at most, such as 8GiB. By default half of what is free
    #[arg(long, global = true, value_name = "SIZE", value_parser = budget)]
    pub max_memory: Option<u64>,
    /// Which lines of source are shown.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Whose code owns memory.
    #[command(flatten)]
    pub code: CodeArgs,
    /// Print a manual page, `man` or `man-COMMAND` (man-lines, man-fleet-ingest), or a shell's completions,
    /// `complete-SHELL` (bash, elvish, fish, powershell, zsh)
    #[arg(long, value_name = "WHAT", value_parser = generated)]
    pub generate: Option<Generated>,
    /// With --generate man: write the pages of all commands to this folder
    #[arg(short, long, value_name = "DIR", requires = "generate")]
    pub output: Option<PathBuf>,
    /// A single view, or another task.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The report: gpumem-analyze CAPTURE is short for it
    #[command(after_help = "Examples:\n  gpumem-analyze report report.bin\n  \
        gpumem-analyze report --all report.bin\n  \
        gpumem-analyze report --hints --format json report.bin | jq '.rows[].advice'\n  \
        gpumem-analyze report --format json report.bin | jq '.data.cause'")]
    Report(cmd_report::Args),
    /// Lines of code that own memory, largest first; or functions, callers, modules, threads, sizes, scopes …
    #[command(after_help = "Examples:\n  gpumem-analyze lines report.bin\n  \
        gpumem-analyze lines --level driver --at end report.bin\n  \
        gpumem-analyze lines --phase backward --step 12 report.bin\n  \
        gpumem-analyze lines --by caller report.bin\n  \
        gpumem-analyze lines --of temporary --within 5ms report.bin\n  \
        gpumem-analyze lines --by size --at end report.bin\n  \
        gpumem-analyze lines --at 21334 --format json report.bin\n\n\
        With --of live, the rows of all phases sum to the level's figure at that point in time, or to the step's.")]
    Lines(cmd_lines::Args),
    /// Breakdown of each GPU's memory at a point in time; the parts sum to NVML's figure
    #[command(after_help = "Examples:\n  gpumem-analyze ledger report.bin\n  \
        gpumem-analyze ledger --by owner --at end report.bin\n  \
        gpumem-analyze ledger --segments report.bin    # which lines keep PyTorch's segments from being freed\n  \
        gpumem-analyze ledger --pool --at oom report.bin    # why free memory could not be used\n  \
        gpumem-analyze ledger --at peak=physical --format json report.bin")]
    Ledger(cmd_ledger::Args),
    /// Memory that stays live across steps of a training: lines that grow, caches, the warm-up
    #[command(after_help = "Examples:\n  gpumem-analyze leaks report.bin\n  \
        gpumem-analyze leaks --steps 10 --file train.py report.bin\n  \
        gpumem-analyze leaks --at end --format json report.bin | jq '.data.rows[] | select(.class == \"growing\")'")]
    Leaks(cmd_leaks::Args),
    /// Live view of a running program's memory in the terminal, in a browser, or as metrics for Prometheus
    #[command(after_help = "Examples:\n  gpumem-analyze live report.bin\n  \
        gpumem-analyze live 4711                     # the program with this process id\n  \
        gpumem-analyze live --serve 127.0.0.1:0 report.bin\n  \
        gpumem-analyze live --metrics '/run/gpumem/*'\n  \
        gpumem-analyze live --metrics=0.0.0.0:9841 --allow-remote runs/\n  \
        gpumem-analyze live --metrics --once -o gpumem.prom report.bin\n\n\
        The view reads the capture only: the program is not paused, and continues when you quit. Press ? for the keys.")]
    #[cfg(feature = "full")]
    Live(cmd_live::Args),
    /// Allocations that failed because memory ran out: the cause, and the lines that held memory
    #[command(after_help = "Examples:\n  gpumem-analyze oom report.bin\n  \
        gpumem-analyze oom --failure 1 report.bin\n  \
        gpumem-analyze oom --format json report.bin | jq '.data.failures[].line'")]
    Oom(cmd_oom::Args),
    /// Change in memory at each line of the script, in the form of gpu_mem_track
    #[command(
        after_help = "Examples:\n  gpumem-analyze changes report.bin | less\n  \
        gpumem-analyze changes --level driver report.bin\n  \
        gpumem-analyze changes --format json report.bin"
    )]
    Changes(cmd_changes::Args),
    /// Differences between two captures, line by line: two runs, two ranks, or two points in time of one run
    #[command(
        after_help = "Examples:\n  gpumem-analyze diff before.bin after.bin\n  \
        gpumem-analyze diff --by function --level driver before.bin after.bin\n  \
        gpumem-analyze diff report.rank0.bin report.rank1.bin\n  \
        gpumem-analyze diff --at step=1 --to end report.bin report.bin\n\n\
        The rows sum to each capture's figure."
    )]
    Diff(cmd_diff::Args),
    /// Peaks before and after a change, checked against limits and budgets: a comment for CI
    #[command(
        after_help = "Examples:\n  gpumem-analyze ci --base base.bin --head head.bin --fail-over 2%\n  \
        gpumem-analyze ci --base main/ --head pr/ --fail-over 64MiB -o comment.md\n  \
        gpumem-analyze ci --head pr/                    # only the budgets of gpumem.toml\n  \
        gpumem-analyze ci --head main/ --history .gpumem/history --trend trend.svg\n\n\
        Exit code 4: a limit or a budget is exceeded; 3: a capture is partial and was not checked."
    )]
    #[cfg(feature = "full")]
    Ci(cmd_ci::Args),
    /// Ranks of a job that differ from their peers: in which lines, and since which step
    #[command(
        after_help = "Examples:\n  gpumem-analyze ranks run/               # a folder with the captures of all ranks\n  \
        gpumem-analyze ranks --mesh pp=2,dp=4,tp=2 run/\n  \
        gpumem-analyze ranks --format json run/ | jq '.data.outliers[].rank'"
    )]
    Ranks(cmd_ranks::Args),
    /// Datasets of many captures
    #[command(
        after_help = "Examples:\n  gpumem-analyze fleet ingest captures/ fleet/\n  \
        gpumem fleet query largest-holders fleet/    # questions need DuckDB, and are in the Python package"
    )]
    #[cfg(feature = "full")]
    Fleet(cmd_fleet::Args),
    /// Flamegraph of the stacks that own memory, as SVG; the width is bytes
    #[command(
        after_help = "Examples:\n  gpumem-analyze flamegraph report.bin          # writes report.svg\n  \
        gpumem-analyze flamegraph --at end -o end.svg report.bin\n  \
        gpumem-analyze flamegraph --format folded report.bin | sort -k2\n  \
        gpumem-analyze flamegraph --from step=2 --at step=20 report.bin\n  \
        gpumem-analyze flamegraph --diff before.bin --format icicle report.bin\n  \
        gpumem-analyze flamegraph --native --color-by category report.bin\n\n\
        The widths sum to the level's figure at that point in time. The same capture gives the same file."
    )]
    Flamegraph(cmd_flamegraph::Args),
    /// Memory over time: tensors, PyTorch's cache, libraries and the rest
    #[command(
        after_help = "Examples:\n  gpumem-analyze timeline report.bin     # writes report.timeline.svg\n  \
        gpumem-analyze timeline --format text report.bin\n  \
        gpumem-analyze timeline --level driver --device 1 -o gpu1.svg report.bin\n  \
        gpumem-analyze timeline --format json report.bin | jq '.data.devices[0].peak'\n\n\
        Peaks are exact for runs of any length."
    )]
    Timeline(cmd_timeline::Args),
    /// One page for a browser: memory over time, flamegraph, lines, ledger and memory maps
    #[command(
        after_help = "Examples:\n  gpumem-analyze html report.bin          # writes report.html\n  \
        gpumem-analyze html -o page.html report.bin\n  \
        gpumem-analyze html --rank 3 report.bin\n  \
        gpumem-analyze html --from step=3 --to step=4 -o step.html report.bin\n\n\
        The file has at most 5 MB and makes no network requests."
    )]
    Html(cmd_html::Args),
    /// Tree of the calls that own memory
    #[command(after_help = "Examples:\n  gpumem-analyze tree report.bin\n  \
        gpumem-analyze tree --native --least 5 report.bin\n  \
        gpumem-analyze tree --at end --format json report.bin")]
    Tree(cmd_tree::Args),
    /// Convert a capture to the formats of other programs
    #[command(
        after_help = "Examples:\n  gpumem-analyze export pprof report.bin          # writes report.pb.gz\n  \
        gpumem-analyze export speedscope --at end -o end.json report.bin\n  \
        gpumem-analyze export perfetto report.bin       # for ui.perfetto.dev\n  \
        gpumem-analyze export csv --level tensor -o - report.bin | head\n\n\
        docs/commands/export.md describes each format and the programs that open it."
    )]
    Export(cmd_export::Args),
    /// Make a capture from the recording of another tool, for all views
    #[command(
        after_help = "Examples:\n  python -c 'torch.cuda.memory._dump_snapshot(\"dump.pickle\")'    # in the program\n  \
        gpumem-analyze import torch-snapshot dump.pickle -o dump.bin\n  \
        gpumem-analyze dump.bin\n\n\
        No code in the pickle is executed. The figures equal the snapshot's, to the byte."
    )]
    Import(cmd_import::Args),
    /// Check whether a capture is intact: exit code 0 if it is, 3 with a list of the damage if not
    #[command(after_help = "Examples:\n  gpumem-analyze check report.bin\n  \
        gpumem-analyze check --symbolize for-you.bin report.bin\n  \
        gpumem-analyze check --symbolize report.bin report.bin    # replaces the capture\n  \
        gpumem-analyze check --ring /dev/fd/5 report.bin    # a ring whose descriptor was held open\n  \
        gpumem-analyze check --format json report.bin")]
    Check(cmd_check::Args),
    /// Model Context Protocol server on standard input and output, for AI assistants
    #[command(
        after_help = "Examples:\n  gpumem-analyze mcp                  # captures below the current folder\n  \
        gpumem-analyze mcp --root runs/ --root src/\n\n\
        An assistant's client starts the server: docs/commands/mcp.md has the configuration. The server writes no files."
    )]
    #[cfg(feature = "full")]
    Mcp(cmd_mcp::Args),
}
