//! Opens stores given on the command line.

use std::time::Duration;

use gpumem_dataset::{Dataset, Patience, Store};

/// Arguments that all of them share.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct StoreArgs {
    /// Time in seconds during which failed requests to an object store are repeated
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub retry_for: u64,
    /// Time limit in seconds of one request to an object store; files are transferred in requests of 8 MiB
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub request_timeout: u64,
}

impl StoreArgs {
    /// A store.
    pub fn store(self, place: &str) -> anyhow::Result<Store> {
        Ok(Store::at(
            place,
            Patience {
                retry: Duration::from_secs(self.retry_for),
                request: Duration::from_secs(self.request_timeout),
            },
        )?)
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
