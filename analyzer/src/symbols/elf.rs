//! Facts about an ELF file: its build id, and where its tables of names are. Only 64-bit little-endian files are
//! supported; all CUDA machines use these.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use gpumem_files::foreign;

const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const SHT_DYNSYM: u32 = 11;
/// Type of the note that holds a build id; its owner is `GNU`.
const NT_GNU_BUILD_ID: u32 = 3;
/// Sizes of the file's header and of a section's header.
pub(super) const HEADER_BYTES: usize = 64;
/// Limits for sections, and for bytes of notes and names. A file that exceeds them is not read.
const SECTIONS_LIMIT: u64 = 1 << 17;
const BYTES_LIMIT: u64 = 4 << 20;

/// The facts. The file stays open for all that is read of it later.
#[derive(Debug)]
pub(super) struct Elf {
    pub(super) file: File,
    /// GNU build id; empty if the file has none.
    pub(super) build_id: Vec<u8>,
    /// Debug information: lines and inlined functions.
    pub(super) has_dwarf: bool,
    /// Names of all functions.
    pub(super) symtab: Option<Table>,
    /// Names of exported functions.
    pub(super) dynsym: Option<Table>,
    /// Name of the separate file with the debug information.
    pub(super) debug_link: Option<String>,
}

/// A table of names: where its parts are in the file.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) symbols: Range<u64>,
    pub(super) strings: Range<u64>,
    /// Whether it has all functions, not only exported ones.
    pub(super) is_full: bool,
}

/// Opens a file and reads its facts; `None` if it is not ELF or cannot be read.
pub(super) fn open(path: &Path) -> Option<Elf> {
    let file = foreign::open(path).ok()?;
    let header = bytes(&file, 0, HEADER_BYTES as u64)?;
    if header.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let sections = sections(&file, &header)?;
    let table = |kind| {
        let of_names = sections.iter().find(|section| section.kind == kind)?;
        let strings = sections.get(of_names.link as usize);
        let strings = strings.filter(|strings| strings.kind == SHT_STRTAB)?;
        Some(Table {
            symbols: of_names.place(),
            strings: strings.place(),
            is_full: kind == SHT_SYMTAB,
        })
    };
    let mut found = Elf {
        build_id: Vec::new(),
        has_dwarf: false,
        symtab: table(SHT_SYMTAB),
        dynsym: table(SHT_DYNSYM),
        debug_link: None,
        file,
    };
    let file = &found.file;
    let names = sections
        .get(names_of(&header, &sections))
        .and_then(|section| bytes(file, section.offset, section.size))
        .unwrap_or_default();
    for section in sections.iter().filter(|section| section.kind != SHT_NOBITS) {
        if section.kind == SHT_NOTE && found.build_id.is_empty() {
            let notes = bytes(file, section.offset, section.size).unwrap_or_default();
            found.build_id = build_id(&notes).unwrap_or_default();
        }
        match text(&names, section.name as usize) {
            Some(".debug_info" | ".zdebug_info") => found.has_dwarf = true,
            Some(".gnu_debuglink") => {
                let link = bytes(file, section.offset, section.size).unwrap_or_default();
                found.debug_link = text(&link, 0)
                    .filter(|name| !name.is_empty() && !name.contains('/'))
                    .map(str::to_owned);
            }
            _ => {}
        }
    }
    Some(found)
}

struct Section {
    name: u32,
    kind: u32,
    offset: u64,
    size: u64,
    link: u32,
}

impl Section {
    fn place(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.size)
    }
}

fn sections(file: &File, header: &[u8]) -> Option<Vec<Section>> {
    let start = number(header, 40, 8)?;
    let size = number(header, 58, 2)?;
    if start == 0 || size != HEADER_BYTES as u64 {
        return None;
    }
    let section = |bytes: &[u8]| {
        Some(Section {
            name: number(bytes, 0, 4)? as u32,
            kind: number(bytes, 4, 4)? as u32,
            offset: number(bytes, 24, 8)?,
            size: number(bytes, 32, 8)?,
            link: number(bytes, 40, 4)? as u32,
        })
    };
    let mut count = number(header, 60, 2)?;
    if count == 0 {
        // The count is in the first section's header if it is too large for this field.
        count = section(&bytes(file, start, size)?)?.size;
    }
    let table = bytes(file, start, count.min(SECTIONS_LIMIT) * size)?;
    table.chunks_exact(HEADER_BYTES).map(section).collect()
}

/// The section with the names of sections.
fn names_of(header: &[u8], sections: &[Section]) -> usize {
    const ELSEWHERE: u64 = 0xffff;
    match number(header, 62, 2) {
        Some(ELSEWHERE) => sections.first().map_or(0, |first| first.link as usize),
        Some(number) => number as usize,
        None => 0,
    }
}

fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (owner, content) = (number(notes, 0, 4)? as usize, number(notes, 4, 4)? as usize);
        let kind = number(notes, 8, 4)? as u32;
        let content_start = 12 + owner.checked_next_multiple_of(4)?;
        let content_end = content_start.checked_add(content)?;
        let build_id = notes.get(content_start..content_end)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + owner) == Some(b"GNU\0") {
            return Some(build_id.to_vec());
        }
        notes = notes.get(content_end.checked_next_multiple_of(4)?..)?;
    }
}

pub(super) fn bytes(file: &File, offset: u64, count: u64) -> Option<Vec<u8>> {
    if count > BYTES_LIMIT.max(SECTIONS_LIMIT * HEADER_BYTES as u64) {
        return None;
    }
    let mut bytes = vec![0; count as usize];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// A little-endian number of `size` bytes.
pub(super) fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)),
    )
}

/// The text at an offset, up to its zero byte.
fn text(bytes: &[u8], at: usize) -> Option<&str> {
    let bytes = bytes.get(at..)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_known_by_its_build_id_and_its_names() {
        let path = std::env::current_exe().expect("path of the test");
        let found = open(&path).expect("an ELF file");
        let same = blazesym::helper::read_elf_build_id(&path)
            .expect("a readable file")
            .expect("tests are linked with a build id");
        assert_eq!(found.build_id, *same);
        assert!(found.symtab.is_some() && found.dynsym.is_some());
        assert_eq!(found.debug_link, None);
    }

    #[test]
    fn what_is_cut_off_or_no_elf_file_has_no_facts() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libcut.so");
        let whole = std::fs::read(std::env::current_exe().expect("path")).expect("a file");
        assert!(open(&path).is_none());
        for length in [0, 5, 63, 64, 1000] {
            std::fs::write(&path, &whole[..length]).expect("written");
            assert!(open(&path).is_none(), "{length} bytes");
        }
        std::fs::write(&path, "#!/bin/sh\n".repeat(100)).expect("written");
        assert!(open(&path).is_none());
        assert!(open(folder.path()).is_none());
    }

    #[test]
    fn notes_of_others_are_passed_over() {
        let note = |kind: u8, owner: &[u8; 4], content: &[u8]| {
            let mut note = vec![4, 0, 0, 0, content.len() as u8, 0, 0, 0, kind, 0, 0, 0];
            note.extend_from_slice(owner);
            note.extend_from_slice(content);
            note.resize(note.len().next_multiple_of(4), 0);
            note
        };
        let notes = [
            note(1, b"GNU\0", &[9; 5]),
            note(3, b"Go\0\0", &[8; 4]),
            note(3, b"GNU\0", &[7; 20]),
        ];
        assert_eq!(build_id(&notes.concat()), Some(vec![7; 20]));
        assert_eq!(build_id(&notes[0]), None);
        assert_eq!(build_id(&notes[2][..30]), None);
        assert_eq!(build_id(&[255; 64]), None);
    }
}
