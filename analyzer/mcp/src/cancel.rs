//! Cancellation of requests.

use std::fmt;
use std::sync::Arc;

/// Checks whether a request was cancelled. The default is never cancelled.
#[derive(Clone, Default)]
pub struct Cancel(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Cancel {
    /// Whether the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|asks| asks())
    }
}

impl<F: Fn() -> bool + Send + Sync + 'static> From<F> for Cancel {
    fn from(asks: F) -> Self {
        Self(Some(Arc::new(asks)))
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("Cancel")
            .field(&self.is_cancelled())
            .finish()
    }
}
