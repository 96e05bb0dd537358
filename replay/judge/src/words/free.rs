//! Free memory that a request cannot use, in words.

use gpumem_replay::units::{bytes, many};

use super::Text;
use crate::verdict::Kind;

impl Text<'_> {
    /// What the verdict is about.
    pub(super) fn unusable(&self) -> String {
        let Some(cache) = &self.facts.cache else {
            return String::new();
        };
        let on_card = bytes(self.facts.card.free().unwrap_or(0));
        let request = bytes(self.facts.request.bytes);
        match self.verdict.kind {
            Kind::Fragmentation => {
                let of = cache.usable;
                format!(
                    "fragmentation: {} is free in PyTorch's cache in {}, the largest {}, and {on_card} on the card; {request} in one block was requested",
                    bytes(of.bytes),
                    many(of.blocks, "block", "blocks"),
                    bytes(of.largest)
                )
            }
            Kind::OtherStreams => format!(
                "free memory in PyTorch's cache belongs to other streams: {} in {}; this request's stream has {} there, and {on_card} is free on the card",
                bytes(cache.other_streams.bytes),
                many(cache.other_streams.blocks, "block", "blocks"),
                bytes(cache.usable.bytes)
            ),
            _ => format!(
                "free memory in PyTorch's cache belongs to private pools, such as those of CUDA graphs: {}; this request's pool has {} there, and {on_card} is free on the card{}",
                bytes(cache.other_pools.bytes),
                bytes(cache.usable.bytes),
                self.kept_by()
            ),
        }
    }

    /// Free memory that would be enough for the request, if it is not what the verdict is about.
    pub(super) fn besides(&self) -> String {
        let said = matches!(
            self.verdict.kind,
            Kind::Fragmentation
                | Kind::OtherStreams
                | Kind::PrivatePools
                | Kind::NotMemory
                | Kind::OwnLimit
                | Kind::Cached
                | Kind::TooLarge
                | Kind::OtherProcesses
                | Kind::Host
                | Kind::Exception
                | Kind::Cycle
                | Kind::Held
        ) || self.kept().is_some();
        let Some(usable) = crate::rules::usable(self.facts) else {
            return String::new();
        };
        let others = self.facts.card.others();
        let is_short = usable < self.facts.needed();
        if !said && is_short && usable.saturating_add(others) >= self.facts.needed() {
            return format!(
                "; other processes have {} of the card, with which the request would fit",
                bytes(others)
            );
        }
        let largest = self
            .facts
            .cache
            .as_ref()
            .map_or(0, |cache| cache.usable.largest);
        if said || is_short || largest >= self.facts.request.bytes {
            return String::new();
        }
        format!("; {} more are free, but not as one block", bytes(usable))
    }
}
