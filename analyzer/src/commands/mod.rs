//! One module for each subcommand, and what they share.

pub mod cmd_changes;
pub mod cmd_check;
pub mod cmd_diff;
pub mod cmd_export;
pub mod cmd_flamegraph;
pub mod cmd_fragmentation;
pub mod cmd_hints;
pub mod cmd_html;
pub mod cmd_import;
pub mod cmd_leaks;
pub mod cmd_ledger;
pub mod cmd_lines;
pub mod cmd_oom;
pub mod cmd_recover;
pub mod cmd_report;
pub mod cmd_scopes;
pub mod cmd_shell;
pub mod cmd_sizes;
pub mod cmd_summary;
pub mod cmd_symbolize;
pub mod cmd_temporary;
pub mod cmd_timeline;
pub mod cmd_tree;
pub mod exit;
pub mod output;
mod progress;
mod read;
