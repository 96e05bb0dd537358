//! Selects the allocations with stacks, if stacks are sampled by bytes.
//!
//! Sample points are on a thread's allocated bytes at exponentially distributed distances (a Poisson process); an
//! allocation has stacks if it contains at least one point. So the probability depends only on its size, `1 -
//! exp(-bytes / mean)`, and not on periodic behaviour of the program. A thread counts down to its next point, like
//! jemalloc's `thread_event.c`: an allocation without stacks costs one comparison and one subtraction.

use core::cell::Cell;

use gpumem_sys::clock;

/// A thread's distance to its next sample point. All zeros: no point has been drawn.
#[derive(Default)]
pub(crate) struct StackSample {
    /// Allocated bytes up to the next point.
    bytes_left: Cell<u64>,
    /// State of the random numbers; 0 before the first.
    random: Cell<u64>,
}

impl StackSample {
    /// Whether an allocation of `bytes`, which are not 0, has stacks; the mean distance of the points is `mean` bytes.
    #[inline(always)]
    pub(crate) fn takes(&self, bytes: u64, mean: u64) -> bool {
        match self.bytes_left.get().checked_sub(bytes) {
            Some(left) => {
                self.bytes_left.set(left);
                false
            }
            None => self.point_reached(bytes, mean),
        }
    }

    #[cold]
    #[inline(never)]
    fn point_reached(&self, bytes: u64, mean: u64) -> bool {
        if self.random.get() == 0 {
            self.seed(entropy(core::ptr::from_ref(self) as u64));
            self.bytes_left.set(self.distance(mean));
            return self.takes(bytes, mean);
        }
        // The process has no memory: the next distance starts where the allocation ends.
        self.bytes_left.set(self.distance(mean));
        true
    }

    fn seed(&self, seed: u64) {
        // Similar seeds give unrelated states (the finalizer of splitmix64).
        let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.random.set((mixed ^ mixed >> 31).max(1));
    }

    /// An exponentially distributed number of bytes, rounded down: an allocation of `n` bytes is shorter than it with
    /// probability `exp(-n / mean)` exactly.
    fn distance(&self, mean: u64) -> u64 {
        // xorshift64*: the high bits of the product have the better quality.
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        let uniform = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        (exponential(uniform) * mean as f64) as u64
    }
}

/// A value that differs between threads, processes and runs.
fn entropy(address: u64) -> u64 {
    // SAFETY: gettid takes nothing and cannot fail.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    address.rotate_left(32) ^ (thread.cast_unsigned() << 40) ^ clock::read(libc::CLOCK_MONOTONIC)
}

/// `-ln((uniform + 1) / 2^53)`, for `uniform` below 2^53, to 9 digits. The C library's `log` would add a dependency on
/// libm.
fn exponential(uniform: u64) -> f64 {
    let number = uniform.saturating_add(1);
    let exponent = number.ilog2();
    // In [1, 2), relative to its geometric middle.
    let fraction = number as f64 / (1_u64 << exponent) as f64;
    let root = core::f64::consts::SQRT_2;
    // ln x = 2 artanh((x - 1) / (x + 1)), whose argument is at most 0.172 here.
    let ratio = (fraction - root) / (fraction + root);
    let square = ratio * ratio;
    let series = 1.0 / 9.0 + square / 11.0;
    let series = 1.0 / 5.0 + square * (1.0 / 7.0 + square * series);
    let series = 1.0 + square * (1.0 / 3.0 + square * series);
    (52.5 - f64::from(exponent)) * core::f64::consts::LN_2 - 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: u64 = 512 << 10;

    fn seeded(seed: u64) -> StackSample {
        let sample = StackSample::default();
        sample.seed(seed);
        sample.bytes_left.set(sample.distance(MEAN));
        sample
    }

    #[test]
    fn the_logarithm_is_the_c_librarys() {
        let most = (1_u64 << 53) - 1;
        for uniform in [
            0,
            1,
            2,
            1000,
            0x1234_5678_9abc,
            most / 3,
            most / 2,
            most - 1,
            most,
        ] {
            let expected = -((uniform + 1) as f64 / (1_u64 << 53) as f64).ln();
            let error = (exponential(uniform) - expected).abs();
            assert!(error <= 1e-9, "{uniform}: {error}");
        }
    }

    /// The probability is `1 - exp(-bytes / mean)`, within four standard errors.
    #[test]
    fn the_probability_depends_on_the_size_alone() {
        for bytes in [512, MEAN / 16, MEAN / 2, MEAN, 3 * MEAN, 20 * MEAN] {
            let sample = seeded(bytes);
            let expected = -(-(bytes as f64) / MEAN as f64).exp_m1();
            let count = (400.0 / expected).clamp(1e4, 1e7) as u64;
            let taken = (0..count).filter(|_| sample.takes(bytes, MEAN)).count();
            let error = (expected * (1.0 - expected) / count as f64).sqrt();
            let differs = taken as f64 / count as f64 - expected;
            assert!(
                differs.abs() <= 4.0 * error + 1e-9,
                "{bytes}: {differs} ± {error}"
            );
        }
    }

    /// A program that repeats one large and many small allocations: each line's estimate, the sum of
    /// `bytes / probability` over what carried stacks, has the true bytes as its mean over many seeds.
    #[test]
    fn estimates_of_a_periodic_program_are_unbiased() {
        const SEEDS: u64 = 400;
        let lines: [(u64, u64); 3] = [(MEAN, 1), (MEAN / 8, 4), (2048, 64)];
        let weight = |bytes: u64| bytes as f64 / -(-(bytes as f64) / MEAN as f64).exp_m1();
        let (mut sums, mut squares) = ([0.0; 3], [0.0; 3]);
        for seed in 1..=SEEDS {
            let (sample, mut estimates) = (seeded(seed), [0.0; 3]);
            for _ in 0..50 {
                for (estimate, (bytes, count)) in estimates.iter_mut().zip(lines) {
                    let taken = (0..count).filter(|_| sample.takes(bytes, MEAN)).count();
                    *estimate += taken as f64 * weight(bytes);
                }
            }
            for (line, estimate) in estimates.into_iter().enumerate() {
                sums[line] += estimate;
                squares[line] += estimate * estimate;
            }
        }
        for (line, (bytes, count)) in lines.into_iter().enumerate() {
            let (seeds, truth) = (SEEDS as f64, (50 * bytes * count) as f64);
            let mean = sums[line] / seeds;
            let error = ((squares[line] / seeds - mean * mean) / seeds).sqrt();
            assert!(
                (mean - truth).abs() <= 4.0 * error,
                "{bytes}: {mean} not {truth} ± {error}"
            );
        }
    }

    #[test]
    fn a_thread_seeds_itself() {
        let sample = StackSample::default();
        while !sample.takes(MEAN, MEAN) {}
        assert_ne!(sample.random.get(), 0);
        assert!(StackSample::default().takes(u64::MAX, 1));
    }

    #[test]
    fn one_seed_gives_one_choice() {
        let choice = |seed| {
            let sample = seeded(seed);
            (0..1000)
                .map(|_| sample.takes(MEAN / 4, MEAN))
                .collect::<Vec<_>>()
        };
        assert_eq!(choice(7), choice(7));
        assert_ne!(choice(7), choice(8));
    }
}
