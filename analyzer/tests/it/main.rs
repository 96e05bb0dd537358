//! `gpumem-analyze` on captures whose every byte is known.

mod bounded;
mod commands;
mod files;
mod golden;
mod html;
mod ledger;
mod phases;
mod pool;
mod synthetic;
mod timeline;
