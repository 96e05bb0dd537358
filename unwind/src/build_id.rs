//! The GNU build id of a module, read from its notes in memory.
//!
//! A note: u32 length of the name, u32 length of the descriptor, u32 type; the name and the
//! descriptor, each padded to the segment's alignment (4, or 8 where the segment requires it).

/// Type of the note that carries the build id (`NT_GNU_BUILD_ID`, elf.h).
const NT_GNU_BUILD_ID: u32 = 3;

/// Longest build id that is kept; linkers create 16 or 20 bytes.
const LONGEST: usize = 64;

/// A module's build id; empty if it has none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BuildId {
    bytes: [u8; LONGEST],
    len: u8,
}

impl BuildId {
    /// None.
    pub const NONE: Self = Self {
        bytes: [0; LONGEST],
        len: 0,
    };

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The build id among the notes of one segment; `alignment` is the segment's (`p_align`).
    pub(crate) fn in_notes(mut notes: &[u8], alignment: u64) -> Option<Self> {
        let step = if alignment == 8 { 8 } else { 4 };
        loop {
            let name_len = word(notes, 0)? as usize;
            let descriptor_len = word(notes, 4)? as usize;
            let kind = word(notes, 8)?;
            let name_end = 12usize.checked_add(name_len)?;
            let descriptor_start = name_end.checked_next_multiple_of(step)?;
            let descriptor_end = descriptor_start.checked_add(descriptor_len)?;
            let name = notes.get(12..name_end)?;
            let descriptor = notes.get(descriptor_start..descriptor_end)?;
            if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
                return Self::new(descriptor);
            }
            let next = descriptor_end.checked_next_multiple_of(step)?;
            notes = notes.get(next..)?;
        }
    }

    fn new(id: &[u8]) -> Option<Self> {
        let mut new = Self {
            len: u8::try_from(id.len()).ok()?,
            ..Self::NONE
        };
        new.bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(new)
    }
}

impl std::fmt::Debug for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, descriptor: &[u8], step: usize) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, descriptor.len() as u32, kind] {
            note.extend(word.to_ne_bytes());
        }
        for part in [name, descriptor] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(step), 0);
        }
        note
    }

    #[test]
    fn found_after_other_notes() {
        for step in [4, 8] {
            let mut notes = note(b"GNU\0", 5, &[7; 12], step);
            notes.extend(note(b"stapsdt\0", 3, &[8; 21], step));
            notes.extend(note(b"GNU\0", 3, &[9; 20], step));
            let id = BuildId::in_notes(&notes, step as u64).unwrap();
            assert_eq!(id.as_bytes(), [9; 20]);
            assert_eq!(format!("{id:?}"), "09".repeat(20));
        }
    }

    #[test]
    fn damaged_notes_hold_none() {
        let whole = note(b"GNU\0", 3, &[9; 20], 4);
        for cut in 0..whole.len() {
            assert_eq!(BuildId::in_notes(&whole[..cut], 4), None, "cut at {cut}");
        }
        let mut long = whole.clone();
        long[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(BuildId::in_notes(&long, 4), None);
        assert_eq!(BuildId::in_notes(&note(b"GNU\0", 3, &[9; 65], 4), 4), None);
    }
}
