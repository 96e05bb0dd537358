//! Names of blocks, which are the same in every run although their addresses differ.

use std::collections::BTreeMap;

/// Blocks by address. A freed block is kept until another one has its address, so that a stale pointer
/// also has a name.
#[derive(Debug, Default)]
pub struct Names {
    blocks: BTreeMap<u64, (u64, u64)>,
    /// The address of another owner's memory, for the next call. It may lie anywhere, and the same
    /// address may belong to an earlier block in one run only.
    foreign: Option<u64>,
    last: u64,
}

/// Addresses below this are numbers that a test chose.
const MADE_UP: u64 = 1 << 20;

impl Names {
    /// Names a block that a call has allocated; [`sized`](Self::sized) sets its size.
    pub fn made(&mut self, address: u64) -> String {
        self.last += 1;
        self.forget(address, 1);
        self.blocks.insert(address, (1, self.last));
        format!("#{} at {}", self.last, address % 512)
    }

    /// Sets the address of another owner's memory; `None` resets it.
    pub fn set_foreign(&mut self, address: Option<u64>) {
        self.foreign = address;
    }

    /// Sets the size of the block at `address`; a block without a name gets one.
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
