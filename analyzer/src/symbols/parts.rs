//! Parts of a function that the compiler moved elsewhere, found without their names.
//!
//! With a profile, the compiler moves rarely executed code into a separate part (`f.cold`), whose name is only in the
//! full table of names. If that is stripped, the parts are found by jumps: the function jumps into the middle of its
//! part, and the part back into the middle of the function. Code never jumps into the middle of another function.
//! Bytes that only look like jumps do not match in both directions. x86-64 only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;

use super::elf::{HEADER_BYTES, bytes, number};

const PT_LOAD: u64 = 1;
const PT_GNU_EH_FRAME: u64 = 0x6474_e550;
/// Bytes of a program header.
const SEGMENT_BYTES: usize = 56;
/// `.eh_frame_hdr` with a count of 4 bytes and a sorted table of 4-byte numbers relative to its start, as all linkers
/// write it.
const TABLE_ENCODINGS: [u8; 2] = [0x03, 0x3b];
const TABLE_START: usize = 12;
const TABLE_ENTRY_BYTES: usize = 8;
/// The least number of distinct jumps into a part.
const JUMPS: usize = 2;

/// The parts, in link addresses, of the function at `function` in the file; none if they cannot be found.
pub(super) fn parts(file: &File, function: Range<u64>) -> Vec<Range<u64>> {
    Code::read(file)
        .and_then(|code| code.parts(function))
        .unwrap_or_default()
}

/// The code of a file, and the start of each function and part.
struct Code<'a> {
    file: &'a File,
    segments: Vec<Segment>,
    starts: Vec<u64>,
}

struct Segment {
    addresses: Range<u64>,
    /// Its offset in the file.
    offset: u64,
}

impl<'a> Code<'a> {
    fn read(file: &'a File) -> Option<Self> {
        const EXECUTABLE: u64 = 1;
        const X86_64: u64 = 62;
        let header = bytes(file, 0, HEADER_BYTES as u64)?;
        if header.get(..6)? != b"\x7fELF\x02\x01" || number(&header, 18, 2)? != X86_64 {
            return None;
        }
        let count = number(&header, 56, 2)?;
        let table = bytes(file, number(&header, 32, 8)?, count * SEGMENT_BYTES as u64)?;
        let (mut segments, mut starts) = (Vec::new(), Vec::new());
        for segment in table.chunks_exact(SEGMENT_BYTES) {
            let field = |at: usize| number(segment, at, 8);
            let (kind, flags) = (number(segment, 0, 4)?, number(segment, 4, 4)?);
            let (offset, start, size) = (field(8)?, field(16)?, field(32)?);
            if kind == PT_GNU_EH_FRAME {
                starts = function_starts(&bytes(file, offset, size)?, start)?;
            } else if kind == PT_LOAD && flags & EXECUTABLE != 0 {
                let addresses = start..start.checked_add(size)?;
                segments.push(Segment { addresses, offset });
            }
        }
        Some(Self {
            file,
            segments,
            starts,
        })
    }

    fn parts(&self, function: Range<u64>) -> Option<Vec<Range<u64>>> {
        let mut inside: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for target in self.jumps(&function)? {
            if let Some(part) = self.around(target)
                && part.start != target
                && !function.contains(&target)
            {
                inside.entry(part.start).or_default().insert(target);
            }
        }
        let parts = inside
            .into_iter()
            .filter(|(_, targets)| targets.len() >= JUMPS)
            .filter_map(|(start, _)| self.around(start));
        let leads_back = |part: &Range<u64>| {
            let mut back = self.jumps(part).unwrap_or_default();
            back.retain(|target| *target != function.start && function.contains(target));
            back.len() >= JUMPS
        };
        Some(parts.filter(leads_back).collect())
    }

    /// The function or part around an address: its start, and the start of the next one.
    fn around(&self, address: u64) -> Option<Range<u64>> {
        let segment = &self.segment(address)?.addresses;
        let next = self.starts.partition_point(|start| *start <= address);
        let start = *self.starts.get(next.checked_sub(1)?)?;
        let end = self.starts.get(next).map_or(segment.end, |next| *next);
        (start >= segment.start).then(|| start..end.min(segment.end))
    }

    fn segment(&self, address: u64) -> Option<&Segment> {
        self.segments
            .iter()
            .find(|segment| segment.addresses.contains(&address))
    }

    /// Targets of all bytes in `code` that look like jumps: `jmp` and conditional jumps, each with a distance of 4
    /// bytes.
    fn jumps(&self, code: &Range<u64>) -> Option<BTreeSet<u64>> {
        const JMP: u8 = 0xe9;
        let segment = self.segment(code.start)?;
        let within = code.start - segment.addresses.start;
        let offset = segment.offset.checked_add(within)?;
        let end = code.end.min(segment.addresses.end);
        let bytes = bytes(self.file, offset, end.checked_sub(code.start)?)?;
        let jumps = bytes.windows(6).enumerate().filter_map(|(at, window)| {
            let is_jump = window[1] == JMP || (window[0] == 0x0f && window[1] & 0xf0 == 0x80);
            let distance = i32::from_le_bytes(window[2..].try_into().ok()?);
            let next = code.start.checked_add(at as u64 + 6)?;
            is_jump.then(|| next.wrapping_add_signed(distance.into()))
        });
        Some(jumps.collect())
    }
}

/// The start of each function and part, sorted, from an `.eh_frame_hdr` at `address`.
fn function_starts(header: &[u8], address: u64) -> Option<Vec<u64>> {
    if header.first() != Some(&1) || header.get(2..4) != Some(&TABLE_ENCODINGS) {
        return None;
    }
    let count = number(header, 8, 4)? as usize;
    let table = header.get(TABLE_START..TABLE_START + count.checked_mul(TABLE_ENTRY_BYTES)?)?;
    let starts = table.chunks_exact(TABLE_ENTRY_BYTES).map(|entry| {
        let distance = number(entry, 0, 4)? as u32 as i32;
        Some(address.wrapping_add_signed(distance.into()))
    });
    starts.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// A function with a rarely executed part, and one that only jumps to a function's start.
    const SOURCE: &str = r#"
            .text
            .globl split, whole
            .type split, @function
        split:
            .cfi_startproc
            test %edi, %edi
            je .Lseldom
        .Lback:
            cmp $99, %edi
            jg .Lnever
        .Lon:
            ret
            .cfi_endproc
            .size split, .-split
            .type whole, @function
        whole:
            .cfi_startproc
            test %edi, %edi
            je split
            jmp split
            .cfi_endproc
            .size whole, .-whole
            .section .text.unlikely, "ax", @progbits
            .type split.cold, @function
        split.cold:
            .cfi_startproc
            ud2
        .Lseldom:
            inc %edi
            jmp .Lback
        .Lnever:
            dec %edi
            jmp .Lon
            .cfi_endproc
            .size split.cold, .-split.cold
            .section .note.GNU-stack, "", @progbits
    "#;

    /// Addresses of a function from the full table of names, which the search for parts does not use.
    fn symbol(path: &Path, name: &str) -> Range<u64> {
        let done = Command::new("nm")
            .args(["-S", "--defined-only"])
            .arg(path)
            .output()
            .expect("nm of binutils, which every C compiler needs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let number = |digits: &str| u64::from_str_radix(digits, 16).expect("hexadecimal");
        let fields = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mut found = fields.filter(|fields| fields.last() == Some(&name));
        let found = found.next().unwrap_or_else(|| panic!("no {name}: {text}"));
        let start = number(found[0]);
        start..start + number(found[1])
    }

    #[test]
    fn a_part_is_where_its_name_would_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, library) = (folder.path().join("a.s"), folder.path().join("liba.so"));
        std::fs::write(&source, SOURCE).expect("written");
        let made = Command::new("cc")
            .args([
                "-O2",
                "-fPIC",
                "-shared",
                "-freorder-blocks-and-partition",
                "-o",
            ])
            .args([&library, &source])
            .status();
        assert!(made.expect("a C compiler").success());
        let cold = symbol(&library, "split.cold");
        let (split, whole) = (symbol(&library, "split"), symbol(&library, "whole"));
        let stripped = folder.path().join("stripped.so");
        let mut strip = Command::new("strip");
        let made = strip.arg("-o").args([&stripped, &library]).status();
        assert!(made.expect("strip of binutils").success());
        let file = File::open(&stripped).expect("the file");
        let found = parts(&file, split.clone());
        assert_eq!(found.len(), 1, "{found:x?}");
        assert_eq!(found[0].start, cold.start);
        assert!(found[0].end >= cold.end && !found[0].contains(&whole.start));
        assert_eq!(parts(&file, whole), []);
        assert_eq!(parts(&file, 0..u64::MAX), []);
        for other in [&source, folder.path()] {
            assert_eq!(
                parts(&File::open(other).expect("opened"), split.clone()),
                []
            );
        }
    }

    /// A file with one segment at the end of all addresses, and with one at the end of all offsets.
    #[test]
    fn numbers_that_do_not_fit_are_no_code() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), [0xe9; 64]).expect("written");
        let jumps = |addresses: Range<u64>, offset, code| {
            let code_of = |file| Code {
                file,
                segments: vec![Segment { addresses, offset }],
                starts: Vec::new(),
            };
            let file = File::open(file.path()).expect("the file");
            code_of(&file).jumps(&code)
        };
        let near_the_end = jumps(u64::MAX - 20..u64::MAX, 0, u64::MAX - 10..u64::MAX);
        assert_eq!(near_the_end.map(|all| all.len()), Some(5));
        assert_eq!(jumps(0..64, u64::MAX - 5, 10..20), None);
    }
}
