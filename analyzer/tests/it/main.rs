//! `gpumem-analyze` on captures whose every byte is known.

mod blocks;
mod bounded;
mod commands;
mod files;
mod golden;
mod leaks;
mod ledger;
mod phases;
mod pool;
mod synthetic;
mod which;
