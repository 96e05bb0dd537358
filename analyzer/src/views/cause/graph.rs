//! Finds the line whose tensor keeps growing memory alive.

/// A line that grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grows<L> {
    /// The line.
    pub line: L,
    /// Its growth in each round.
    pub bytes_per_round: u64,
    /// Its live blocks.
    pub blocks: u64,
    /// Increases with the time of its first allocation.
    pub first: u64,
}

/// A tensor keeps alive what was allocated before it in the same round. So the holder is the last line of a round, if
/// it keeps a block of each round and only a small part of the bytes: a loss, a score, the output of a network.
pub fn holder<L>(grows: &[Grows<L>], rounds: u64) -> Option<&Grows<L>> {
    let all: u64 = grows.iter().map(|of| of.bytes_per_round).sum();
    let is_small = |of: &&Grows<L>| of.bytes_per_round <= all / 8;
    let of_each = |of: &&Grows<L>| of.blocks >= rounds.saturating_sub(2) / 2 && of.blocks > 1;
    let last = grows.iter().max_by_key(|of| of.first)?;
    Some(last).filter(is_small).filter(of_each)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &str, bytes_per_round: u64, blocks: u64, first: u64) -> Grows<&str> {
        Grows {
            line,
            bytes_per_round,
            blocks,
            first,
        }
    }

    #[test]
    fn the_small_block_that_comes_last_in_each_round_holds_the_others() {
        let grows = [
            line("loss", 512, 39, 30),
            line("layer", 8 << 20, 400, 10),
            line("batch", 1 << 20, 40, 1),
        ];
        assert_eq!(holder(&grows, 40).map(|of| of.line), Some("loss"));
        assert_eq!(holder(&grows[1..], 40), None, "nothing small");
        let seldom = [line("once", 512, 2, 30), line("layer", 8 << 20, 400, 10)];
        assert_eq!(holder(&seldom, 40), None);
        let first = [line("counter", 512, 40, 5), line("layer", 8 << 20, 400, 10)];
        assert_eq!(
            holder(&first, 40),
            None,
            "what comes before keeps nothing alive"
        );
    }
}
