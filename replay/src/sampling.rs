//! Estimates of what each stack holds, where only a sample of the blocks has stacks.
//!
//! A recorder that samples stacks ([`ProcessKey::STACK_SAMPLE`]) records those of a block of `b` bytes with probability
//! `p = 1 - exp(-b / mean)`, and everything else of every block. So each block with stacks represents itself, which is
//! certain, and `b / p - b` bytes in blocks without. These are its *unseen* bytes. The unseen bytes of all blocks are
//! an unbiased estimate of the bytes without stacks, whose exact number is known.
//!
//! Estimates are calibrated to that number: the bytes without stacks are distributed in proportion to the unseen bytes.
//! So no stack gets less than its own blocks have, large blocks are not scaled because they are certain, and the
//! stacks' sum equals the level's own figure. Blocks are distributed by their purpose (see [`Purpose`]), which the
//! recorder stores for every block.
//!
//! [`Purpose`]: crate::Purpose

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use gpumem_capture::{Level, ProcessKey, StackId};

use crate::block::Block;
use crate::category::Category;
use crate::high_water::Figure;
use crate::ids::StackKey;
use crate::names::Names;
use crate::purpose::{Purpose, ThreadPhase};

/// Units per block in which unseen blocks are counted, because their number is rarely an integer.
const PARTS: f64 = 1024.0;

/// How a recorder sampled stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Mean distance of the sample points in allocated bytes.
    pub mean: NonZeroU64,
}

impl Sampling {
    /// How stacks were sampled, if they were.
    pub fn of(names: &Names) -> Option<Self> {
        let mean = names.fact(ProcessKey::STACK_SAMPLE)?.parse().ok()?;
        Some(Self { mean })
    }

    /// Expected bytes without stacks for each byte's worth of probability: `b / p - b`.
    fn beyond(self, bytes: f64) -> f64 {
        let mean = self.mean.get() as f64;
        bytes / (bytes / mean).exp_m1()
    }

    /// The unseen bytes of a block with stacks; blocks in 1/1024.
    pub fn unseen(self, bytes: u64) -> Figure {
        let bytes = bytes.max(1) as f64;
        let beyond = self.beyond(bytes);
        Figure {
            bytes: beyond.round() as u64,
            blocks: (beyond / bytes * PARTS).round() as u64,
        }
    }

    /// The standard error of an estimate: for `blocks` blocks of their mean size, the variance is that of Poisson
    /// sampling, the sum of `b² (1 - p) / p`. Calibration makes the error smaller, so this is an upper bound if the
    /// sizes are similar.
    pub fn standard_error(self, figure: Figure) -> u64 {
        let (bytes, blocks) = (figure.bytes as f64, figure.blocks.max(1) as f64);
        if figure.bytes == 0 {
            return 0;
        }
        (bytes * self.beyond(bytes / blocks)).sqrt().round() as u64
    }
}

/// Determines which blocks of a tensor level stand for others.
#[derive(Clone, Copy)]
pub(crate) struct Sampled<'a> {
    sampling: Option<Sampling>,
    keys: &'a [StackKey],
}

impl<'a> Sampled<'a> {
    /// For blocks with these keys.
    pub(crate) fn new(sampling: Option<Sampling>, keys: &'a [StackKey]) -> Self {
        Self { sampling, keys }
    }

    /// The same for a level; only the tensor level is sampled.
    pub(crate) fn at(self, level: Level) -> Self {
        let sampling = self.sampling.filter(|_| level == Level::TENSOR);
        Self { sampling, ..self }
    }

    /// The unseen bytes of a block; `None` if it lacks stacks because of sampling.
    #[inline]
    pub(crate) fn unseen(self, block: Block) -> Option<Figure> {
        let sampling = self.sampling?;
        let stacks = self.keys.get(block.key.0 as usize)?;
        let has_stacks = !stacks.is_not_sampled() && *stacks != StackKey::EVICTED;
        has_stacks.then(|| sampling.unseen(block.bytes))
    }
}

impl StackKey {
    /// Whether the block's stacks were not recorded because of sampling.
    pub fn is_not_sampled(&self) -> bool {
        self.py == StackId::NOT_SAMPLED
    }
}

/// Blocks of one stratum are estimated together. A block without stacks does not show whether its thread ran Python, so
/// work beside a backward's thread counts as outside phases. The category is left out too, because it mostly follows
/// from the stacks.
fn stratum(purpose: Purpose) -> Purpose {
    match purpose.phase() {
        ThreadPhase::Beside => {
            let outside = Purpose::new(ThreadPhase::Outside, purpose.is_workspace());
            match purpose.is_no_grad() {
                true => outside.no_grad(),
                false => outside,
            }
        }
        _ => purpose.without_place().with(Category::None),
    }
}

/// Distributes the figures of blocks without stacks. `unseen` holds the unseen bytes and blocks of each figure. A
/// stratum without unseen bytes stays unchanged.
pub fn share_out(figures: &mut Vec<(StackKey, Figure, Figure)>) {
    // By purpose: the figures without stacks, and the unseen figures of the others.
    let mut strata: BTreeMap<Purpose, [Figure; 2]> = BTreeMap::new();
    for (stacks, figure, unseen) in figures.iter() {
        let [without, stand_for] = strata.entry(stratum(stacks.purpose)).or_default();
        if stacks.is_not_sampled() {
            *without += *figure;
        } else {
            *stand_for += *unseen;
        }
    }
    strata.retain(|_, [without, stand_for]| without.bytes > 0 && stand_for.bytes > 0);
    if strata.is_empty() {
        return;
    }
    let is_shared = |stacks: &StackKey| strata.contains_key(&stratum(stacks.purpose));
    figures.retain(|(stacks, ..)| !(stacks.is_not_sampled() && is_shared(stacks)));
    // The order determines who gets the remainder of rounding.
    figures.sort_unstable_by_key(|(stacks, ..)| *stacks);
    let mut passed: BTreeMap<Purpose, Figure> = BTreeMap::new();
    for (stacks, figure, unseen) in figures {
        let stratum = stratum(stacks.purpose);
        let Some([without, stand_for]) = strata.get(&stratum) else {
            continue;
        };
        let passed = passed.entry(stratum).or_default();
        let before = *passed;
        *passed += *unseen;
        let bytes = |of: &Figure| (of.bytes, stand_for.bytes);
        // The unseen number of large blocks may round to zero.
        let blocks = |of: &Figure| match stand_for.blocks {
            0 => bytes(of),
            all => (of.blocks, all),
        };
        let more = |whole, of: &dyn Fn(&Figure) -> (u64, u64)| {
            part(whole, of(passed)).saturating_sub(part(whole, of(&before)))
        };
        figure.bytes = figure.bytes.saturating_add(more(without.bytes, &bytes));
        figure.blocks = figure.blocks.saturating_add(more(without.blocks, &blocks));
    }
}

/// `whole * share / of`, rounded down; `of` is not 0.
fn part(whole: u64, (share, of): (u64, u64)) -> u64 {
    (u128::from(whole) * u128::from(share) / u128::from(of.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use gpumem_capture::{Definition, DeviceOrdinal, Event, EventKind, Record, Seq};

    use super::*;
    use crate::{At, Replay};

    const MEAN: u64 = 512 << 10;
    const GPU: DeviceOrdinal = DeviceOrdinal(0);
    const MOMENTS: usize = 4;

    fn sampling() -> Sampling {
        let mean = NonZeroU64::new(MEAN).unwrap();
        Sampling { mean }
    }

    /// Returns the same numbers for the same seed.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    /// The figures of four stacks: at the level's peak, at the device's, at the end, and allocated in all.
    fn figures(replay: &Replay) -> [BTreeMap<u32, Figure>; MOMENTS] {
        [
            replay.figures(GPU, Level::TENSOR, At::Peak),
            replay.figures_at_device_peak(GPU, Level::TENSOR),
            replay.figures(GPU, Level::TENSOR, At::End),
            replay.allocated(GPU, Level::TENSOR),
        ]
        .map(|figures| {
            let mut by_stack = BTreeMap::<u32, Figure>::new();
            for (stacks, figure) in figures {
                *by_stack.entry(stacks.py.0).or_default() += figure;
            }
            by_stack
        })
    }

    /// Plays one program, whose sample of stacks depends on `seed`; with 0 all are recorded.
    fn play(seed: u64) -> Replay {
        let (mut program, mut chance) = (Random(1), Random(seed));
        let mut replay = Replay::new(At::Peak);
        if seed != 0 {
            replay.feed(Record::Definition(
                Seq(0),
                &Definition::Process {
                    key: ProcessKey::STACK_SAMPLE.into(),
                    value: MEAN.to_string(),
                },
            ));
        }
        let mut live: Vec<(u64, u64)> = Vec::new();
        for seq in 1..=4000 {
            let growing = seq < 2500;
            let free = live.len() > 300 && program.below(10) < if growing { 4 } else { 7 };
            let mut event = Event {
                level: Level::TENSOR,
                device: GPU,
                ..Event::default()
            };
            if free {
                let at = program.below(live.len() as u64) as usize;
                (event.ptr, event.bytes) = live.swap_remove(at);
                event.kind = EventKind::FREE;
            } else {
                // The first stack has blocks of two sizes.
                let stack = program.below(5) as u32;
                event.bytes = [4 << 10, 64 << 10, 512 << 10, 6 << 20, 1 << 20][stack as usize];
                event.py_stack = StackId(stack.max(1));
                (event.kind, event.ptr) = (EventKind::ALLOC, seq << 24);
                live.push((event.ptr, event.bytes));
                let exact = -(-(event.bytes as f64) / MEAN as f64).exp_m1();
                if seed != 0 && chance.below(1 << 30) as f64 >= exact * f64::from(1 << 30) {
                    (event.py_stack, event.native_stack) =
                        (StackId::NOT_SAMPLED, StackId::NOT_SAMPLED);
                }
            }
            replay.feed(Record::Event(Seq(seq), &event));
        }
        replay
    }

    #[test]
    fn estimates_are_unbiased_and_sum_to_the_exact_figure() {
        const SEEDS: u64 = 200;
        let exact = play(0);
        let truth = figures(&exact);
        let mut sums: [BTreeMap<u32, [f64; 4]>; MOMENTS] = Default::default();
        for seed in 1..=SEEDS {
            let replay = play(seed);
            let counters = |replay: &Replay| replay.counters(GPU, Level::TENSOR);
            assert_eq!(counters(&replay), counters(&exact));
            for ((estimates, truth), sums) in figures(&replay).iter().zip(&truth).zip(&mut sums) {
                let sum = |figures: &BTreeMap<u32, Figure>| {
                    let mut sum = Figure::default();
                    figures.values().for_each(|figure| sum += *figure);
                    sum
                };
                assert_eq!(sum(estimates), sum(truth));
                for (stack, truth) in truth {
                    let estimate = estimates.get(stack).copied().unwrap_or_default();
                    let differs = estimate.bytes as f64 - truth.bytes as f64;
                    let [bytes, squares, blocks, within] = sums.entry(*stack).or_default();
                    *bytes += differs;
                    *squares += differs * differs;
                    *blocks += estimate.blocks as f64 - truth.blocks as f64;
                    let error = sampling().standard_error(estimate) as f64;
                    *within += f64::from(u8::from(differs.abs() <= 2.0 * error));
                }
            }
        }
        let seeds = SEEDS as f64;
        for (moment, (sums, truth)) in sums.iter().zip(&truth).enumerate() {
            for (stack, [bytes, squares, blocks, within]) in sums {
                let said = format!("{moment} {stack}: {:?}", truth[stack]);
                let (mean, error) = (bytes / seeds, squares.sqrt() / seeds);
                // A ratio of few samples is biased; the bias is far below its error.
                let bias = truth[stack].bytes as f64 / 1e4;
                assert!(mean.abs() <= 4.0 * error + bias, "{said}: {mean} ± {error}");
                // One block of 4 KiB stands for 128: few of them make a ratio of numbers of blocks uneven.
                let blocks = blocks / seeds / truth[stack].blocks as f64;
                assert!(blocks.abs() <= 0.15, "{said}: {blocks}");
                assert!(*within >= 0.85 * seeds, "{said}: {within}");
            }
        }
    }

    #[test]
    fn large_blocks_are_certain() {
        let unseen = sampling().unseen(64 << 20);
        assert_eq!(unseen, Figure::default());
        assert_eq!(sampling().unseen(1).bytes, MEAN);
        assert_eq!(sampling().standard_error(Figure::block(64 << 20)), 0);
        let small = Figure {
            bytes: 100 << 20,
            blocks: 25_600,
        };
        let error = sampling().standard_error(small) as f64;
        // 200 samples: 1/√200.
        assert!(
            (error / (100.0 * f64::from(1 << 20)) - 0.0706).abs() < 0.001,
            "{error}"
        );
    }

    fn key(stack: StackId, phase: ThreadPhase) -> StackKey {
        StackKey {
            py: stack,
            native: stack,
            purpose: Purpose::new(phase, false),
            ..StackKey::default()
        }
    }

    #[test]
    fn each_purpose_shares_out_its_own_and_what_nobody_stands_for_stays() {
        use ThreadPhase::{Beside, Optimizer, Outside, ZeroGrad};
        let without = StackId::NOT_SAMPLED;
        let figure = |bytes, blocks| Figure { bytes, blocks };
        let mut figures = vec![
            (key(without, Outside), figure(1000, 10), Figure::default()),
            (key(without, Optimizer), figure(77, 7), Figure::default()),
            (key(without, ZeroGrad), figure(5, 1), Figure::default()),
            (key(StackId(1), Outside), figure(300, 1), figure(200, 2048)),
            (key(StackId(2), Beside), figure(300, 2), figure(600, 6144)),
            (key(StackId(3), Optimizer), figure(9, 1), figure(1, 0)),
        ];
        // The category is known from stacks only.
        figures[0].0.purpose = figures[0].0.purpose.with(Category::Input);
        figures[3].0.purpose = figures[3].0.purpose.with(Category::Activation);
        share_out(&mut figures);
        let mut shared: Vec<_> = figures
            .into_iter()
            .map(|(stacks, figure, _)| (stacks.py.0, figure.bytes, figure.blocks))
            .collect();
        shared.sort_unstable();
        assert_eq!(
            shared,
            [(1, 550, 3), (2, 1050, 10), (3, 86, 8), (without.0, 5, 1)]
        );
    }
}
