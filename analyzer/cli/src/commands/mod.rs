//! One module for each subcommand, and shared modules.

#[cfg(feature = "budgets")]
pub mod budgets;
mod by_block;
pub mod cmd_changes;
pub mod cmd_check;
#[cfg(feature = "full")]
pub mod cmd_ci;
pub mod cmd_diff;
pub mod cmd_export;
pub mod cmd_flamegraph;
#[cfg(feature = "full")]
pub mod cmd_fleet;
pub mod cmd_html;
pub mod cmd_import;
pub mod cmd_leaks;
pub mod cmd_ledger;
pub mod cmd_lines;
#[cfg(feature = "full")]
pub mod cmd_live;
#[cfg(feature = "full")]
pub mod cmd_mcp;
pub mod cmd_oom;
pub mod cmd_ranks;
pub mod cmd_report;
pub mod cmd_timeline;
pub mod cmd_tree;
mod each;
pub mod exit;
mod foreign;
pub mod generate;
mod hints;
mod moment;
pub mod output;
mod pivot;
pub mod pool;
mod progress;
mod ranks_again;
mod read;
mod symbolize;
mod view;
