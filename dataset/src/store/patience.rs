//! How long an object store is waited for.

use std::time::Duration;

/// How long an object store is waited for. Folders are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long what it refuses is tried again.
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
