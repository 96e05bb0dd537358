//! Prints a warning to stderr when a card is nearly full, before an allocation fails.

use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_capture::DeviceOrdinal;

use crate::message;
use crate::session::{CardUse, Watch};

/// Percentage points by which use must fall below the threshold before the next warning.
const SLACK: u64 = 5;

/// Warns once for each card, until there is room again.
pub(crate) struct NearlyFull {
    /// The threshold in percent of the card.
    percent: u64,
    /// The devices with a warning, a bit each.
    told: AtomicU64,
}

impl NearlyFull {
    /// No warnings so far.
    pub(crate) const fn new(percent: u64) -> Self {
        Self {
            percent,
            told: AtomicU64::new(0),
        }
    }

    /// The warning for a reading, if any.
    fn said(&self, device: DeviceOrdinal, card: CardUse) -> Option<String> {
        let bit = 1 << (device.0 & 63);
        let percent = card.used.saturating_mul(100) / card.total.max(1);
        if percent.saturating_add(SLACK) < self.percent {
            self.told.fetch_and(!bit, Ordering::Relaxed);
        }
        if percent < self.percent || self.told.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return None;
        }
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let mine = card.mine.map_or_else(String::new, |mine| {
            format!(", {:.2} GiB of it by this process", gib(mine))
        });
        Some(format!(
            "GPU {} is {percent} % full: {:.2} of {:.2} GiB are in use{mine}",
            device.0,
            gib(card.used),
            gib(card.total),
        ))
    }
}

impl Watch for NearlyFull {
    fn card_read(&self, device: DeviceOrdinal, card: CardUse) {
        if let Some(text) = self.said(device, card) {
            message::line(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_told_of_once_until_there_is_room_again() {
        let watch = NearlyFull::new(90);
        let used = |percent: u64| CardUse {
            used: percent << 30,
            total: 100 << 30,
            mine: Some(1 << 30),
        };
        let said = |device, percent| watch.said(DeviceOrdinal(device), used(percent)).is_some();
        assert!(!said(0, 89));
        assert!(said(0, 90) && !said(0, 99));
        assert!(said(1, 91));
        // A little room does not reset the warning.
        assert!(!said(0, 86) && !said(0, 95));
        assert!(!said(0, 84) && said(0, 95));
    }

    #[test]
    fn the_line_names_the_card_and_both_figures() {
        let card = CardUse {
            used: 95 << 30,
            total: 100 << 30,
            mine: None,
        };
        let said = NearlyFull::new(95).said(DeviceOrdinal(2), card);
        let expected = "GPU 2 is 95 % full: 95.00 of 100.00 GiB are in use";
        assert_eq!(said.as_deref(), Some(expected));
    }
}
