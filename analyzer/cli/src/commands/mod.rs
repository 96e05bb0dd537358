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

/// The JSON Schema of each form that commands print, by its name.
#[cfg(feature = "full")]
pub fn schemas() -> std::collections::BTreeMap<&'static str, serde_json::Value> {
    use gpumem_analyzer::envelope::{View, schema};

    fn of<V: View>() -> (&'static str, serde_json::Value) {
        (V::FORM.name, schema::<V>())
    }
    let here = [
        of::<cmd_check::Check<'_>>(),
        of::<cmd_diff::Report<'_>>(),
        of::<cmd_fleet::forms::Pruned>(),
        of::<cmd_fleet::forms::Summary>(),
        of::<cmd_fleet::forms::Tables>(),
        of::<cmd_oom::Report<'_>>(),
        of::<cmd_ranks::WithTimeline<'_>>(),
        of::<gpumem_analyzer::fleet::FleetOutliers>(),
        of::<pool::Pools>(),
    ];
    let of_views = gpumem_analyzer::envelope::schemas();
    let of_answers = gpumem_analyzer::answers::schemas();
    of_views.into_iter().chain(of_answers).chain(here).collect()
}
