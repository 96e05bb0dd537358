//! Why an allocation failed.

use gpumem_capture::Level;

use super::figures::Figures;

/// Why an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// This process holds the missing memory.
    CardFull,
    /// Other processes hold the missing memory: without them the allocation would have succeeded.
    Others,
    /// There was enough free memory, but no block of this size.
    Fragmentation {
        /// Free on the card and in the framework's pool together.
        free: u64,
    },
    /// There was enough free memory, but no block of this size. Tensors use nearly all of the card, so the next
    /// requests would fail, too.
    NearlyFull {
        /// Free on the card and in the framework's pool together.
        free: u64,
    },
    /// The framework refused before it requested memory from the driver: it has its own limit.
    OwnLimit,
    /// There was enough free memory, and the driver still refused: it lacked another resource.
    NotMemory {
        /// Free on the card.
        free: u64,
    },
    /// Pinned memory comes from the host.
    Host,
    /// No API reports the card's memory.
    Unknown,
}

/// The card's page size: a request takes whole pages.
const PAGE: u64 = 2 << 20;

/// Minimum percentage of free memory in the framework's segments for fragmentation to be the cause. Growth, which is
/// checked first, is known only to the analyzer.
const FREE: u64 = 25;

/// The free memory that a request needs on the card: whole pages, at least one.
fn needed(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(PAGE).unwrap_or(bytes)
}

/// The cause according to the current figures. They are taken after the failure, so they include changes by other
/// threads and processes since then.
pub(super) fn judge(figures: &Figures) -> Cause {
    if figures.level == Level::HOST {
        return Cause::Host;
    }
    let cached = figures.cached();
    let Some(free) = figures.free() else {
        return Cause::Unknown;
    };
    let Some(refused) = figures.refused else {
        return Cause::OwnLimit;
    };
    // The size of a context is known only if one was created: it is more than there was.
    let [need, of_driver] = match (figures.level, figures.asked) {
        (Level::PHYSICAL, 0) => [free.saturating_add(1); 2],
        (_, asked) => [needed(asked), needed(asked.max(refused))],
    };
    if free >= of_driver {
        return Cause::NotMemory { free };
    }
    if free.saturating_add(cached) >= need {
        let free = free.saturating_add(cached);
        let reserved = figures.framework.map_or(0, |(_, reserved)| reserved);
        let is_notable = u128::from(cached) * 100 >= u128::from(reserved) * u128::from(FREE);
        return match cached > 0 && is_notable {
            true => Cause::Fragmentation { free },
            false => Cause::NearlyFull { free },
        };
    }
    let others = figures.others().unwrap_or(0);
    let mine = figures.mine();
    let to_be_had = free.saturating_add(cached).saturating_add(others);
    if to_be_had >= need && mine.is_none_or(|mine| others >= mine) {
        return Cause::Others;
    }
    Cause::CardFull
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Card, Figures};
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A card of 16 GiB.
    fn figures(asked: u64, mine: u64, others: u64, framework: Option<(u64, u64)>) -> Figures {
        let used = mine + others;
        Figures {
            asked,
            level: Level::TENSOR,
            refused: Some(asked),
            framework,
            card: Some(Card {
                total: 16 * GIB,
                used,
                mine: Some(mine),
                others: Some(others),
            }),
            ..Figures::default()
        }
    }

    #[test]
    fn a_card_that_this_process_fills_is_full() {
        let framework = Some((15 * GIB, 15 * GIB));
        assert_eq!(
            judge(&figures(2 * GIB, 15 * GIB, 0, framework)),
            Cause::CardFull
        );
        // Other processes have little: this is only a remark.
        let with_others = figures(2 * GIB, 14 * GIB, GIB, Some((14 * GIB, 14 * GIB)));
        assert_eq!(judge(&with_others), Cause::CardFull);
    }

    #[test]
    fn others_are_the_cause_where_it_would_have_fitted_without_them() {
        let framework = Some((GIB, GIB));
        assert_eq!(
            judge(&figures(2 * GIB, GIB, 14 * GIB, framework)),
            Cause::Others
        );
        // Not even the whole card would be sufficient.
        assert_eq!(
            judge(&figures(17 * GIB, GIB, 14 * GIB, framework)),
            Cause::CardFull
        );
    }

    #[test]
    fn enough_in_pieces_is_fragmentation() {
        let framework = Some((9 * GIB, 15 * GIB));
        let free = 16 * GIB - 15 * GIB + 6 * GIB;
        let cause = judge(&figures(4 * GIB, 15 * GIB, 0, framework));
        assert_eq!(cause, Cause::Fragmentation { free });
    }

    #[test]
    fn a_card_that_tensors_nearly_fill_is_not_fragmented() {
        // 13 of 15 GiB are live: defragmentation would help this request but not the next ones.
        let framework = Some((13 * GIB, 15 * GIB));
        let cause = judge(&figures(2 * GIB, 15 * GIB, 0, framework));
        assert_eq!(cause, Cause::NearlyFull { free: 3 * GIB });
    }

    #[test]
    fn a_segment_that_is_larger_than_its_tensor_finds_no_room() {
        let mut small = figures(
            5 << 20,
            16 * GIB - (18 << 20),
            0,
            Some((15 * GIB, 15 * GIB)),
        );
        small.refused = Some(20 << 20);
        let free = 18 << 20;
        assert_eq!(judge(&small), Cause::NearlyFull { free });
        small.refused = Some(16 << 20);
        assert_eq!(judge(&small), Cause::NotMemory { free });
    }

    #[test]
    fn a_refusal_with_enough_free_is_about_something_else() {
        let cause = judge(&figures(GIB, 2 * GIB, 0, Some((GIB, GIB))));
        assert_eq!(cause, Cause::NotMemory { free: 14 * GIB });
        let mut own = figures(GIB, 2 * GIB, 0, Some((GIB, GIB)));
        own.refused = None;
        assert_eq!(judge(&own), Cause::OwnLimit);
    }

    #[test]
    fn a_context_that_takes_nobody_knows_what_had_no_room() {
        let context = |mine, others| Figures {
            level: Level::PHYSICAL,
            ..figures(0, mine, others, None)
        };
        assert_eq!(judge(&context(0, 0)), Cause::CardFull);
        assert_eq!(judge(&context(GIB, 14 * GIB)), Cause::Others);
    }

    #[test]
    fn what_nobody_says_is_not_guessed() {
        let mut blind = figures(GIB, 0, 0, None);
        blind.card = None;
        assert_eq!(judge(&blind), Cause::Unknown);
        blind.level = Level::HOST;
        assert_eq!(judge(&blind), Cause::Host);
    }
}
