//! `gpumem-analyze` on captures with known bytes.

#[path = "../../../../replay/examples/record_again/again.rs"]
mod again;
mod blocks;
mod bounded;
mod captures;
mod changes;
mod ci;
mod commands;
mod damaged;
mod export;
mod export_torch;
mod files;
mod fragmentation;
mod golden;
mod html;
mod import;
mod leaks;
mod ledger;
mod lines;
mod modules;
mod phases;
mod pool;
mod ranks;
mod run;
mod selection;
mod streams;
mod sums;
mod synthetic;
mod threads;
mod timeline;
mod training;
mod usage;
mod value;
mod widths;
