//! Names at addresses, from one pass over a table of names as it is in the file.
//!
//! blazesym sorts a file's whole table before the first look-up: a third of the processor time of `html` with the
//! libraries of PyTorch 2.15.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use super::elf::{Table, bytes, number};

/// Bytes of an entry of a table, and of a part that is read at once.
const ENTRY_BYTES: usize = 24;
const PART_BYTES: usize = ENTRY_BYTES * 8192;
/// Limits for a table's entries, for those with one start, and for a name's bytes. What exceeds them is not read.
const ENTRIES_LIMIT: u64 = 1 << 24;
const SAME_START_LIMIT: usize = 1 << 12;
const NAME_LIMIT: usize = 1 << 20;

/// A function in a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    /// Linkers give functions with the same code one address.
    pub(super) names: Vec<String>,
    pub(super) start: u64,
    /// 0 if it is not known.
    pub(super) size: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    start: u64,
    is_defined: bool,
    size: u64,
    name: u32,
}

impl Entry {
    /// `None` for what is neither a function, nor data between functions, nor a label.
    fn read(bytes: &[u8]) -> Option<Self> {
        const LABEL_DATA_FUNCTION_RESOLVER: [u64; 4] = [0, 1, 2, 10];
        let kind = number(bytes, 4, 1)? & 0xf;
        let entry = Self {
            start: number(bytes, 8, 8)?,
            is_defined: number(bytes, 6, 2)? != 0,
            size: number(bytes, 16, 8)?,
            name: number(bytes, 0, 4)? as u32,
        };
        LABEL_DATA_FUNCTION_RESOLVER
            .contains(&kind)
            .then_some(entry)
    }

    /// A function without a size goes on to the next entry, if the table has all functions.
    fn contains(&self, address: u64, is_full: bool) -> bool {
        let distance = address - self.start;
        self.is_defined
            && match self.size {
                0 => is_full || distance == 0,
                size => distance < size,
            }
    }
}

impl Table {
    /// The functions that contain the addresses, which are in ascending order.
    pub(super) fn find(&self, file: &File, addresses: &[u64]) -> Vec<Option<Symbol>> {
        // By address: the entries with the last start up to it and after the address before it.
        let mut found: Vec<Vec<Entry>> = vec![Vec::new(); addresses.len()];
        let Range { start, end } = self.symbols;
        let is_read = !addresses.is_empty() && end - start <= ENTRIES_LIMIT * ENTRY_BYTES as u64;
        for start in (start..end).step_by(PART_BYTES) {
            let size = (end - start).min(PART_BYTES as u64);
            let part = is_read.then(|| bytes(file, start, size)).flatten();
            let Some(part) = part else {
                return addresses.iter().map(|_| None).collect();
            };
            for entry in part.chunks_exact(ENTRY_BYTES).filter_map(Entry::read) {
                let first = addresses.partition_point(|address| *address < entry.start);
                let Some(last) = found.get_mut(first) else {
                    continue;
                };
                let start = last.first().map(|of| of.start);
                if start < Some(entry.start) {
                    last.clear();
                }
                if start <= Some(entry.start) && last.len() < SAME_START_LIMIT {
                    last.push(entry);
                }
            }
        }
        let mut nearest = &Vec::new();
        let of_address = addresses.iter().zip(&found).map(|(address, entries)| {
            nearest = if entries.is_empty() { nearest } else { entries };
            self.best(file, nearest, *address)
        });
        of_address.collect()
    }

    /// The largest function that contains the address.
    fn best(&self, file: &File, nearest: &[Entry], address: u64) -> Option<Symbol> {
        let contain = nearest
            .iter()
            .filter(|entry| entry.contains(address, self.is_full));
        let size = contain.clone().map(|entry| entry.size).max()?;
        let names = contain
            .filter(|entry| entry.size == size)
            .filter_map(|entry| self.name(file, entry.name));
        let names: Vec<String> = names.collect();
        let start = nearest.first()?.start;
        (!names.is_empty()).then_some(Symbol { names, start, size })
    }

    /// A name that is not empty.
    fn name(&self, file: &File, at: u32) -> Option<String> {
        let start = self.strings.start.checked_add(at.into())?;
        let (mut name, mut size) = (Vec::new(), 256);
        loop {
            let left = self.strings.end.saturating_sub(start);
            name.resize(size.min(left as usize), 0);
            let read = file.read_at(&mut name, start).ok()?;
            if let Some(end) = name[..read].iter().position(|byte| *byte == 0) {
                name.truncate(end);
                return String::from_utf8(name).ok().filter(|name| !name.is_empty());
            }
            if size >= NAME_LIMIT || read < size {
                return None;
            }
            size *= 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use blazesym::symbolize::source::{Elf, Source};
    use blazesym::symbolize::{Input, Symbolizer};

    use super::super::elf;
    use super::*;

    /// This test's own program has both tables. blazesym's answers are taken from a sorted one.
    #[test]
    fn each_address_has_the_name_that_a_sorted_table_gives() {
        let path = std::env::current_exe().expect("path of the test");
        let file = elf::open(&path).expect("an ELF file");
        let table = file.symtab.as_ref().expect("tests are not stripped");
        let entries = bytes(&file.file, table.symbols.start, 24 * 20_000).expect("entries");
        let near = |entry: &[u8]| {
            let (start, size) = (number(entry, 8, 8)?, number(entry, 16, 8)?);
            Some([start.wrapping_sub(1), start, start + size / 2, start + size])
        };
        let mut addresses: Vec<u64> = entries.chunks(24 * 7).filter_map(near).flatten().collect();
        addresses.extend([0, 1, u64::MAX]);
        addresses.sort_unstable();
        addresses.dedup();
        let mut source = Elf::new(&path);
        source.debug_syms = false;
        let (source, input) = (Source::Elf(source), Input::VirtOffset(&addresses[..]));
        let symbolizer = Symbolizer::builder().enable_demangling(false).build();
        let sorted = symbolizer.symbolize(&source, input).expect("found");
        let ours = table.find(&file.file, &addresses);
        let mut named = 0;
        for ((address, sorted), ours) in addresses.iter().zip(sorted).zip(ours) {
            let places = sorted.as_sym().map(|found| (found.addr, found.size));
            let own = ours.as_ref().map(|found| {
                let size = Some(found.size as usize).filter(|size| *size > 0);
                (found.start, size)
            });
            assert_eq!(own, places, "{address:#x}: {ours:?}, {sorted:?}");
            named += usize::from(own.is_some());
        }
        assert!(named > 5000, "{named}");
    }

    #[test]
    fn the_largest_function_at_a_place_has_all_its_names() {
        let file = tempfile::tempfile().expect("a file");
        let texts = b"\0label\0grow_all\0grow\0free\0inner\0";
        let (label, grow_all, grow, free, inner) = (1, 7, 16, 21, 26);
        let symbols: Vec<u8> = [
            (label, 0x1000, 0),
            (grow_all, 0x1000, 0x20),
            (grow, 0x1000, 0x20),
            (free, 0x1000, 0x10),
            (inner, 0x1030, 8),
        ]
        .into_iter()
        .flat_map(|(name, start, size)| entry(name, start, size))
        .collect();
        let end = symbols.len() as u64;
        file.write_all_at(&symbols, 0).expect("written");
        file.write_all_at(texts, end).expect("written");
        let table = Table {
            symbols: 0..end,
            strings: end..end + texts.len() as u64,
            is_full: true,
        };
        let found = table.find(&file, &[0x1000, 0x1018, 0x1020, 0x1034, 0x1038]);
        let names = found
            .iter()
            .map(|of| of.as_ref().map(|of| of.names.join(" ")).unwrap_or_default());
        let names: Vec<String> = names.collect();
        // Behind the functions is only the label, and behind a later function is nothing.
        assert_eq!(
            names,
            ["grow_all grow", "grow_all grow", "label", "inner", ""]
        );
    }

    fn entry(name: u32, start: u64, size: u64) -> Vec<u8> {
        let mut entry = name.to_le_bytes().to_vec();
        entry.extend([0x12, 0, 1, 0]);
        entry.extend(start.to_le_bytes());
        entry.extend(size.to_le_bytes());
        entry
    }

    #[test]
    fn a_damaged_table_has_no_names() {
        let file = tempfile::tempfile().expect("a file");
        let table = |symbols, strings| Table {
            symbols,
            strings,
            is_full: true,
        };
        file.write_all_at(&entry(3, 0x1000, 0x10), 0)
            .expect("written");
        file.write_all_at(b"\0\0\0main\0\xff\0no end", 24)
            .expect("written");
        let names = |table: Table, address| {
            let found = table.find(&file, &[0xfff, address]);
            assert_eq!((found.len(), &found[0]), (2, &None));
            found
                .into_iter()
                .nth(1)
                .flatten()
                .map(|symbol| symbol.names.concat())
        };
        let end = 24 + 16;
        assert_eq!(
            names(table(0..24, 24..end), 0x100f).as_deref(),
            Some("main")
        );
        assert_eq!(names(table(0..24, 24..end), 0x1010), None, "past its end");
        for (symbols, strings) in [
            (0..24, 28..end),
            (0..24, 29..end),
            (0..24, 31..end),
            (0..24, 24..28),
            (0..24, u64::MAX..u64::MAX),
            (0..23, 24..end),
            (0..1000, 24..end),
            (0..u64::MAX, 24..end),
            (u64::MAX..u64::MAX, 24..end),
        ] {
            let damaged = table(symbols.clone(), strings.clone());
            assert_eq!(names(damaged, 0x1001), None, "{symbols:?} {strings:?}");
        }
    }
}
