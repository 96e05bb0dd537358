//! Names of blocks: the same in every run, while their addresses are not.

use std::collections::BTreeMap;

/// Blocks by address. One that is gone is kept until another takes its place, so that a stale
/// pointer has a name too.
#[derive(Debug, Default)]
pub struct Names {
    blocks: BTreeMap<u64, (u64, u64)>,
    /// The address of memory that others own, for the next call: it may lie anywhere, where something was
    /// before in one run and nothing in another.
    foreign: Option<u64>,
    last: u64,
}

/// Addresses below this are numbers that a test made up.
const MADE_UP: u64 = 1 << 20;

impl Names {
    /// Names a block that a call has made; its size is told by [`sized`](Self::sized).
    pub fn made(&mut self, address: u64) -> String {
        self.last += 1;
        self.forget(address, 1);
        self.blocks.insert(address, (1, self.last));
        format!("#{} at {}", self.last, address % 512)
    }

    /// The address is one of memory that others own, until it is said that none is.
    pub fn set_foreign(&mut self, address: Option<u64>) {
        self.foreign = address;
    }

    /// Says how large the block at `address` is; a block that has no name yet gets one.
    pub fn sized(&mut self, address: u64, bytes: u64) {
        let number = match self.blocks.get(&address) {
            Some((1, number)) => *number,
            _ => {
                self.last += 1;
                self.last
            }
        };
        self.forget(address, bytes);
        self.blocks.insert(address, (bytes, number));
    }

    fn forget(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let gone: Vec<u64> = self
            .blocks
            .range(..end)
            .rev()
            .take_while(|(start, (bytes, _))| **start + *bytes > address)
            .map(|(start, _)| *start)
            .collect();
        for start in gone {
            self.blocks.remove(&start);
        }
    }

    /// The name of an address.
    pub fn of(&self, address: u64) -> String {
        if address < MADE_UP {
            return format!("{address}");
        }
        if self.foreign == Some(address) {
            return String::from("(others')");
        }
        match self.blocks.range(..=address).next_back() {
            Some((start, (bytes, number))) if address - start <= *bytes => {
                format!("@{number}+{}", address - start)
            }
            _ => String::from("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_its_name_until_another_takes_its_place() {
        let mut names = Names::default();
        let at = 1 << 30;
        assert_eq!(names.made(at), "#1 at 0");
        names.sized(at, 4096);
        assert_eq!(names.of(at + 7), "@1+7");
        assert_eq!(names.made(at + 1024), "#2 at 0");
        names.sized(at + 1024, 64);
        assert_eq!(names.of(at + 1025), "@2+1");
        assert_eq!(names.of(at), "?");
        assert_eq!(names.of(16), "16");
        names.set_foreign(Some(at + 1024));
        assert_eq!(names.of(at + 1024), "(others')");
        names.set_foreign(None);
        assert_eq!(names.of(at + 1024), "@2+0");
    }
}
