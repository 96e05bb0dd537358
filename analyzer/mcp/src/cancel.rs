//! Whether a client still waits for its answer.

use std::fmt;
use std::sync::Arc;

/// Asks whether a question was cancelled. By default it never is.
#[derive(Clone, Default)]
pub struct Cancel(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Cancel {
    /// Whether nobody waits any more.
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
