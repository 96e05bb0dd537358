//! Free memory that a request cannot use, and settings of the allocator, in words.

use gpumem_replay::units::{bytes, many};

use super::Text;
use crate::cache::Cache;
use crate::facts::EXPANDABLE_PAGE;
use crate::holders::Holder;
use crate::rules::{NOTABLE, is_needed_again, notable};
use crate::verdict::Kind;

/// What may help where no replay ran.
const UNTRIED: &str = "not tried: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True may let free blocks merge; gpumem oom replays this run with it";

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

    /// A copy of weights, and free memory that would be enough for the request, if these are not what the verdict is about.
    pub(super) fn besides(&self) -> String {
        let copy = |of: &Holder| {
            let (who, size) = (self.named(of), bytes(of.bytes));
            format!("; {who} has as much as the weights of a model: {size}")
        };
        self.copy_of_weights().map_or_else(String::new, copy) + &self.free_besides()
    }

    fn free_besides(&self) -> String {
        if self.fits_without_others() {
            return format!(
                "; other processes have {} of the card, and without them the request would fit",
                bytes(self.facts.card.others())
            );
        }
        match crate::rules::usable(self.facts) {
            Some(usable) if self.is_in_smaller_blocks() => {
                format!("; {} is free, but in smaller blocks", bytes(usable))
            }
            _ => String::new(),
        }
    }

    /// Whether enough memory is free for the request, but no block of it is large enough.
    fn is_in_smaller_blocks(&self) -> bool {
        let cache = self.facts.cache.as_ref();
        let largest = cache.map_or(0, |cache| cache.usable.largest);
        !self.is_independent_of_free()
            && crate::rules::usable(self.facts).is_some_and(|of| of >= self.facts.needed())
            && largest < self.facts.request.bytes
    }

    /// Whether the verdict is about free memory, or what is free does not matter to it.
    fn is_independent_of_free(&self) -> bool {
        let is_one = matches!(
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
        );
        is_one || self.kept().is_some()
    }

    /// Whether the request would fit if other processes had no part of the card, and the verdict is of another kind.
    pub(super) fn fits_without_others(&self) -> bool {
        let (needed, others) = (self.facts.needed(), self.facts.card.others());
        let usable = crate::rules::usable(self.facts);
        let lacks = usable.is_some_and(|of| of < needed && of.saturating_add(others) >= needed);
        // What is free is in smaller blocks, and they have much.
        let total = self.facts.card.total.unwrap_or(u64::MAX);
        let free = self.facts.card.free().unwrap_or(0);
        let is_much = notable(others, total, NOTABLE) && free.saturating_add(others) >= needed;
        !self.is_independent_of_free() && (lacks || is_much && free < needed)
    }

    /// That what is free in the pool is needed again.
    pub(super) fn needed_again(&self) -> String {
        let peaks = &self.facts.peaks;
        let most = bytes(peaks.before.max(peaks.now));
        match is_needed_again(self.facts) {
            true => format!(", which the next steps need again: up to {most} of tensors were live"),
            false => String::new(),
        }
    }

    /// What gives memory of the pool to a request outside of it.
    pub(super) fn advice_of_cached(&self) -> Option<String> {
        if is_needed_again(self.facts) {
            return Some(
                "use a smaller batch: torch.cuda.empty_cache() would help only until the next one"
                    .into(),
            );
        }
        let empty = match self.facts.cache.as_ref().map(Cache::whole) {
            None => Some("call torch.cuda.empty_cache() before it".to_owned()),
            Some(0) => None,
            Some(whole) => Some(format!(
                "call torch.cuda.empty_cache() before it, which frees {}",
                bytes(whole)
            )),
        };
        let fraction = self.fraction().map(|hundredths| {
            format!("leave it room: torch.cuda.set_per_process_memory_fraction(0.{hundredths:02})")
        });
        match (empty, fraction) {
            (Some(empty), Some(fraction)) => Some(format!("{empty}, or {fraction}")),
            (empty, fraction) => empty.or(fraction),
        }
    }

    /// The hundredths of the card with which PyTorch's pool leaves room for the request, and has a tenth more than its
    /// tensors. `None`: there is no such part, or the size of the request is not known.
    fn fraction(&self) -> Option<u64> {
        let (card, total) = (&self.facts.card, self.facts.card.total?);
        let room = self.facts.reserved.saturating_add(card.free()?);
        let pool = room.checked_sub(self.facts.needed())?;
        let hundredths = pool.saturating_mul(100) / total.max(1);
        let least = self.facts.tensors.saturating_add(self.facts.tensors / 10);
        let is_enough = hundredths < 100 && total / 100 * hundredths >= least;
        (is_enough && !self.facts.request.has_no_size).then_some(hundredths)
    }

    pub(super) fn advice_of_fragmentation(&self) -> String {
        let settings = self.facts.settings.as_deref().unwrap_or_default();
        let largest = self.facts.cache.as_ref().map_or(0, |of| of.usable.largest);
        let order = "allocate the largest tensors first, and together what is freed together";
        let replays = self
            .facts
            .replays
            .as_ref()
            .filter(|of| of.shows_the_failure());
        match (replays, self.remedy()) {
            (_, Some(remedy)) => format!("set {remedy}"),
            (Some(replays), None) => format!(
                "{order}; of {} of PyTorch's allocator none serves the request in a replay",
                many(
                    replays.others.len() as u64,
                    "other setting",
                    "other settings"
                )
            ),
            (None, None) if settings.contains("expandable_segments:True") => order.into(),
            (None, None) if largest < EXPANDABLE_PAGE => format!(
                "{order}; not tried: other settings of PyTorch's allocator, which gpumem oom replays"
            ),
            (None, None) => UNTRIED.into(),
        }
    }

    /// Settings of the allocator that serve the request in a replay.
    fn remedy(&self) -> Option<String> {
        let replays = self.facts.replays.as_ref()?;
        let setting = replays.remedy()?;
        let doubt = match replays.is_exact {
            true => "",
            false => "; not exact: gpumem whatif lists why",
        };
        Some(format!(
            "{} (replayed: the request succeeds, with {} reserved at the peak{doubt})",
            setting.assignment(),
            bytes(setting.reserved)
        ))
    }

    /// The same after other advice. Where memory grows from round to round, it would help for a while only.
    pub(super) fn or_settings(&self, advice: Option<String>) -> Option<String> {
        let may = matches!(
            self.verdict.kind,
            Kind::OtherStreams
                | Kind::PrivatePools
                | Kind::LargeRequest
                | Kind::New
                | Kind::Alike
                | Kind::Copies
                | Kind::OptimizerState
                | Kind::Workspaces
                | Kind::Activations
                | Kind::Model
                | Kind::Largest
        );
        // What each call needs becomes longer, and what shorter ones left is in blocks that are too small.
        let is_of_call = self
            .holders()
            .all(|of| of.is_in_forward() || of.is_of_calls());
        let is_longer =
            self.verdict.kind == Kind::Lengthened && is_of_call && self.is_in_smaller_blocks();
        let settings = self.facts.settings.as_deref().unwrap_or_default();
        let is_untried = is_longer
            && self.facts.replays.is_none()
            && !settings.contains("expandable_segments:True");
        match (advice, self.remedy().filter(|_| may || is_longer)) {
            (Some(advice), Some(remedy)) => Some(format!("{advice}; or set {remedy}")),
            (Some(advice), None) if is_untried => Some(format!("{advice}; {UNTRIED}")),
            (None, Some(remedy)) => Some(format!("set {remedy}")),
            (advice, None) => advice,
        }
    }
}
