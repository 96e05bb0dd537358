//! Stores by the command line.

use std::time::Duration;

use gpumem_dataset::{Dataset, Store};

/// What all of them take.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct StoreArgs {
    /// How long what an object store refuses is tried again, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub retry_for: u64,
}

impl StoreArgs {
    /// A store.
    pub fn store(self, place: &str) -> anyhow::Result<Store> {
        Ok(Store::at(place, Duration::from_secs(self.retry_for))?)
    }

    /// The dataset at a place.
    pub fn dataset(self, place: &str) -> anyhow::Result<Dataset> {
        Ok(Dataset::open(self.store(place)?)?)
    }
}

/// `3 captures`, `1 capture`.
pub fn many(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
