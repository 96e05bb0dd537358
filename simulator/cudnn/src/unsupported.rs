//! Functions that are not simulated. They exist so that programs link, and print a message once.

use crate::status::{Status, status};
use std::sync::atomic::{AtomicBool, Ordering};

/// Rejects the call, with a line on stderr the first time.
pub fn refuse(name: &str, told: &AtomicBool) -> Status {
    if !told.swap(true, Ordering::Relaxed) {
        eprintln!(
            "gpumem simulator: {name} is not simulated: it returns CUDNN_STATUS_NOT_SUPPORTED"
        );
    }
    status(Err(Status::NOT_SUPPORTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_once() {
        let told = AtomicBool::new(false);
        for _ in 0..2 {
            assert_eq!(refuse("cudnnSomething", &told), Status::NOT_SUPPORTED);
        }
        assert!(told.load(Ordering::Relaxed));
    }
}
