//! Which requests an allocator turns into a block of a given size, under its settings.
//!
//! | what | becomes |
//! |---|---|
//! | a request | a multiple of 512 bytes; with `roundup_power2_divisions` the next of so many parts of a power of two |
//! | a free block of up to 1 MiB, and any in an expandable segment | is split wherever 512 bytes remain |
//! | a larger one | is split where more than 1 MiB remains |
//! | a request of `max_split_size` or more | splits nothing; a free block of less than 20 MiB more will do |

const STEP: u64 = 512;
const SMALL: u64 = 1 << 20;
/// The most bytes that a block that may not be split can have beyond its request.
const UNSPLIT: u64 = 20 << 20;

/// The settings that determine this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rounding {
    /// The coarsest of several settings; 0: off.
    divisions: u64,
    /// 0: no limit.
    max_split: u64,
    is_expandable: bool,
}

impl Rounding {
    /// Takes over the settings in a text.
    pub(crate) fn set(&mut self, text: &str) {
        let text: String = text.chars().filter(|of| !of.is_whitespace()).collect();
        let (mut in_list, mut name) = (false, "");
        for part in text.split(',') {
            let value = match part.split_once(':') {
                Some((new, value)) if !in_list => {
                    name = new;
                    value
                }
                _ => part,
            };
            let is_first = !in_list;
            in_list = (in_list || value.starts_with('[')) && !value.ends_with(']');
            let value = value.trim_matches(['[', ']']);
            let number = value.rsplit(':').next().and_then(|of| of.parse().ok());
            match name {
                "roundup_power2_divisions" => {
                    let before = if is_first { 0 } else { self.divisions };
                    let known = [before, number.unwrap_or(0)].into_iter();
                    self.divisions = known.filter(|of| *of > 1).min().unwrap_or(0);
                }
                "max_split_size_mb" => self.max_split = number.unwrap_or(0) << 20,
                "expandable_segments" => self.is_expandable = value == "True",
                _ => {}
            }
        }
    }

    /// The size to which the allocator rounds a request.
    fn rounded(&self, request: u64) -> u64 {
        let divisions = self.divisions;
        if divisions > 1 && request > STEP * divisions && !request.is_power_of_two() {
            let floor = 1 << request.ilog2();
            let part: u64 = floor >> divisions.ilog2();
            return request.next_multiple_of(part.max(1));
        }
        request.max(1).next_multiple_of(STEP)
    }

    /// The smallest request that may have had a block of this size. `is_split`: it was split off a larger one.
    pub(crate) fn least(&self, block: u64, is_split: bool) -> u64 {
        let whole = block <= SMALL || self.is_expandable || is_split;
        let least = match (whole, self.max_split) {
            (true, _) => block,
            (false, most) if most > 0 && block >= most => {
                let unsplit = block.saturating_sub(UNSPLIT) + STEP;
                unsplit.max(most).min(block - SMALL)
            }
            (false, _) => block - SMALL,
        };
        // A smaller request comes from another pool.
        let least = if whole {
            least
        } else {
            least.max(SMALL + STEP)
        };
        let (mut below, mut enough) = (0, least);
        while enough - below > 1 {
            let middle = below + (enough - below) / 2;
            match self.rounded(middle) < least {
                true => below = middle,
                false => enough = middle,
            }
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn under(settings: &str) -> Rounding {
        let mut rounding = Rounding::default();
        rounding.set(settings);
        rounding
    }

    #[test]
    fn settings_are_read() {
        let found = under(
            "max_split_size_mb:64, roundup_power2_divisions:[256:1,512:2,1024:4,>:8],expandable_segments:True",
        );
        let expected = Rounding {
            divisions: 2,
            max_split: 64 * MIB,
            is_expandable: true,
        };
        assert_eq!(found, expected);
        let mut found = under("roundup_power2_divisions:8");
        assert_eq!(found.divisions, 8);
        found.set("roundup_power2_divisions:4,expandable_segments:False");
        assert_eq!((found.divisions, found.is_expandable), (4, false));
        assert_eq!(under(""), Rounding::default());
    }

    #[test]
    fn a_small_block_is_of_a_request_of_up_to_511_bytes_less() {
        let default = under("");
        assert_eq!(default.least(512, false), 1);
        assert_eq!(default.least(1024, false), 513);
        assert_eq!(default.least(MIB, false), MIB - 511);
    }

    #[test]
    fn a_large_block_may_have_kept_up_to_a_mebibyte() {
        let default = under("");
        assert_eq!(default.least(20 * MIB, false), 19 * MIB - 511);
        assert_eq!(default.least(20 * MIB, true), 20 * MIB - 511);
        assert_eq!(default.least(MIB + 1024, false), MIB + 1);
        let expandable = under("expandable_segments:True");
        assert_eq!(expandable.least(20 * MIB, false), 20 * MIB - 511);
        let unsplit = under("max_split_size_mb:30");
        assert_eq!(unsplit.least(29 * MIB, false), 28 * MIB - 511);
        assert_eq!(unsplit.least(40 * MIB, false), 30 * MIB - 511);
        assert_eq!(unsplit.least(60 * MIB, false), 40 * MIB + 1);
    }

    #[test]
    fn the_least_request_has_the_block_and_one_byte_less_has_not() {
        for settings in [
            "",
            "roundup_power2_divisions:4",
            "roundup_power2_divisions:8",
        ] {
            let rounding = under(settings);
            for request in (1..64).chain((1..400).map(|n| n * 26_543)) {
                let block = rounding.rounded(request);
                let least = rounding.least(block, true);
                assert!(least <= request && rounding.rounded(least) == block);
                assert!(least == 1 || rounding.rounded(least - 1) < block);
            }
        }
    }
}
