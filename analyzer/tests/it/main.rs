//! `gpumem-analyze` on captures whose every byte is known.

mod blocks;
mod bounded;
mod commands;
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
mod phases;
mod pool;
mod run;
mod selection;
mod synthetic;
mod threads;
mod timeline;
mod training;
