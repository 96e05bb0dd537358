//! Time limits for requests to an object store.

use std::time::Duration;

/// Time limits for requests to an object store; they do not apply to folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long refused requests are retried.
    pub retry: Duration,
    /// How long one request may take.
    pub request: Duration,
}

/// A minute each.
impl Default for Patience {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            retry: minute,
            request: minute,
        }
    }
}
