//! The heatmap's cells in the data of a page: as exact as its size permits.
//!
//! Each part of each rank is a row of integers, one for each column: 0 if there is nothing, else 1 more than the
//! bytes in units, rounded up. Each is written as its difference from the one before, as zigzag in groups of seven
//! bits, the lowest first. All rows follow one another, part by part, and are compressed by zlib.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::packed;
use crate::ranks::{Heatmap, Part, Parts};

/// The resolution of figures, as fractions of the greatest one, if exact figures are too large.
const COARSER: [u64; 3] = [65_000, 4000, 250];
/// The number of rows from which the size of all is estimated.
const SAMPLED: usize = 256;

/// Encoded cells.
#[derive(Debug)]
pub(super) struct Cells {
    /// The units of each part's figures, in bytes; 1 if they are exact.
    pub units: Parts,
    /// zlib.
    pub packed: Vec<u8>,
}

impl Cells {
    /// The cells of a map in at most `room` bytes; `None` if they do not fit at the coarsest resolution.
    pub fn of(map: &Heatmap, room: usize) -> std::io::Result<Option<Self>> {
        let most = map.most();
        let coarser = COARSER.map(|steps| most.map(|most| most.div_ceil(steps).max(1)));
        // A sample of the rows gives an estimate of the size in a fraction of the time.
        let every = map.ranks.len().div_ceil(SAMPLED).max(1);
        for units in std::iter::once([1; 3]).chain(coarser) {
            let some = Self::in_units(map, units, every)?;
            if some.packed.len().saturating_mul(every) > room.saturating_mul(2) {
                continue;
            }
            let all = Self::in_units(map, units, 1)?;
            if all.packed.len() <= room {
                return Ok(Some(all));
            }
        }
        Ok(None)
    }

    /// The cells of every `every`-th rank.
    fn in_units(map: &Heatmap, units: Parts, every: usize) -> std::io::Result<Self> {
        let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut row = Vec::new();
        for part in Part::ALL {
            let part = part as usize;
            for of in map.ranks.iter().step_by(every) {
                row.clear();
                let mut before = 0_i64;
                for column in 0..map.columns {
                    let here = of.at(column).map_or(0, |parts| {
                        parts[part].div_ceil(units[part]).saturating_add(1) as i64
                    });
                    packed::signed(here.wrapping_sub(before), &mut row);
                    before = here;
                }
                out.write_all(&row)?;
            }
        }
        Ok(Self {
            units,
            packed: out.finish()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::ZlibDecoder;

    use super::*;
    use crate::ranks::HeatRow;

    fn map(ranks: u64) -> Heatmap {
        let row = |rank: u64| HeatRow {
            rank,
            first_column: rank as usize % 3,
            greatest: (0..60)
                .map(|at| [(at * 7919 + rank) << 14, u64::MAX >> 12, at % 2])
                .collect(),
        };
        Heatmap {
            from_unix_ns: 1 << 60,
            column_ns: 1 << 20,
            columns: 64,
            ranks: (0..ranks).map(row).collect(),
        }
    }

    fn read(cells: &Cells) -> Vec<i64> {
        let mut bytes = Vec::new();
        ZlibDecoder::new(&*cells.packed)
            .read_to_end(&mut bytes)
            .unwrap();
        let groups = bytes.split_inclusive(|byte| byte & 0x80 == 0);
        groups
            .map(|group| {
                let left = group
                    .iter()
                    .rev()
                    .fold(0_u64, |all, byte| all << 7 | u64::from(byte & 0x7f));
                (left >> 1) as i64 ^ -((left & 1) as i64)
            })
            .collect()
    }

    #[test]
    fn cells_can_be_read_back_and_are_exact_where_there_is_room() {
        let map = map(5);
        let exact = Cells::of(&map, 1 << 20).unwrap().unwrap();
        assert_eq!(exact.units, [1; 3]);
        let coarse = Cells::of(&map, exact.packed.len() - 1).unwrap().unwrap();
        assert!(coarse.packed.len() < exact.packed.len());
        assert!(Cells::of(&map, 10).unwrap().is_none());
        assert!(coarse.units[0] > 1 && coarse.units[0] <= map.most()[0].div_ceil(250));
        for cells in [&exact, &coarse] {
            let mut numbers = read(cells).into_iter();
            for part in 0..3 {
                for row in &map.ranks {
                    let mut now = 0;
                    for column in 0..map.columns {
                        now += numbers.next().unwrap();
                        let unit = cells.units[part];
                        match row.at(column) {
                            None => assert_eq!(now, 0),
                            Some(parts) => assert_eq!(now as u64, parts[part].div_ceil(unit) + 1),
                        }
                    }
                }
            }
            assert_eq!(numbers.next(), None);
        }
    }
}
