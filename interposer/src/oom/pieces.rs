//! The free memory in a framework's segments, and the sizes of its free blocks.
//!
//! Only segments with a live tensor count, because unused segments are freed before an allocation
//! fails. A free block is the memory between two tensors of a segment, or between a tensor and the
//! segment's edge.

/// Free memory in segments that are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pieces {
    /// Bytes of the segments.
    pub(super) held: u64,
    /// Free bytes in them.
    pub(super) free: u64,
    /// The largest free block.
    pub(super) largest: u64,
    /// The number of free blocks.
    pub(super) count: u64,
    /// The number of segments.
    pub(super) segments: u64,
}

/// The free blocks of `segments` between `tensors`; each is an address and bytes.
pub(super) fn between(mut segments: Vec<(u64, u64)>, mut tensors: Vec<(u64, u64)>) -> Pieces {
    segments.sort_unstable();
    tensors.sort_unstable();
    let mut pieces = Pieces::default();
    let mut tensors = tensors.into_iter().peekable();
    for (start, bytes) in segments {
        let end = start.saturating_add(bytes);
        while tensors.next_if(|(tensor, _)| *tensor < start).is_some() {}
        let mut at = start;
        let mut found = Pieces::default();
        let piece = |bytes: u64, found: &mut Pieces| {
            if bytes != 0 {
                found.free += bytes;
                found.largest = found.largest.max(bytes);
                found.count += 1;
            }
        };
        let mut is_used = false;
        while let Some((tensor, bytes)) = tensors.next_if(|(tensor, _)| *tensor < end) {
            is_used = true;
            piece(tensor.saturating_sub(at), &mut found);
            at = at.max(tensor.saturating_add(bytes));
        }
        if is_used {
            piece(end.saturating_sub(at), &mut found);
            pieces.held += bytes;
            pieces.free += found.free;
            pieces.largest = pieces.largest.max(found.largest);
            pieces.count += found.count;
            pieces.segments += 1;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_tensors_are_pieces() {
        let pieces = between(
            vec![(1000, 100), (2000, 50), (3000, 70)],
            vec![(2040, 10), (1010, 20), (1060, 40), (3000, 70)],
        );
        let expected = Pieces {
            held: 220,
            free: 10 + 30 + 40,
            largest: 40,
            count: 3,
            segments: 3,
        };
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_segment_without_tensors_is_somebody_elses() {
        assert_eq!(
            between(vec![(1000, 100)], vec![(900, 50)]),
            Pieces::default()
        );
        assert_eq!(between(Vec::new(), vec![(1, 1)]), Pieces::default());
    }

    #[test]
    fn what_makes_no_sense_does_no_harm() {
        // Tensors that overlap one another and the segment's end.
        let pieces = between(
            vec![(10, 10)],
            vec![(8, 4), (12, 6), (14, 2), (19, u64::MAX)],
        );
        assert_eq!((pieces.free, pieces.count), (2 + 1, 2));
    }
}
