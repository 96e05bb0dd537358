//! The missing records of damaged bounded captures.

use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use gpumem_capture::*;

use crate::bounded::{Counts, RING, found, record};
use crate::support::in_memory;

/// Where the areas of a file with this ring are: two states and the log.
fn areas(path: &Path) -> [u64; 3] {
    let length = std::fs::metadata(path).unwrap().len();
    let start = 24_576 + 64 * u64::from(RING);
    let each = (length - start) / 3;
    [start, start + each, start + 2 * each]
}

fn flip(path: &Path, offset: u64) {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

#[test]
fn one_damaged_state_costs_nothing_and_two_are_said() {
    let folder = in_memory();
    let path = folder.path().join("report.bin");
    record(&path, 400_000);
    let whole = found(&path);
    assert_eq!(whole.counts.events(), 400_000);
    let [first, second, _] = areas(&path);
    for (damaged, places) in [
        (1, [first + 24, first + 24]),
        (1, [second + 130, second + 130]),
        (2, [first + 3, second + 56]),
    ] {
        let copy = folder.path().join("copy.bin");
        std::fs::copy(&path, &copy).unwrap();
        flip(&copy, places[0]);
        if damaged == 2 {
            flip(&copy, places[1]);
        }
        let found = found(&copy);
        if damaged == 1 {
            assert_eq!(found.counts, whole.counts);
            assert!(found.integrity.is_whole(), "{:?}", found.integrity);
        } else {
            let [damage] = &found.integrity.damage[..] else {
                panic!("{:?}", found.integrity)
            };
            assert_eq!(damage.first_missing, Some(Seq(0)));
            assert_eq!(damage.next_good, found.first);
            assert!(damage.what.contains("neither state is whole"), "{damage:?}");
            assert!(found.first > Some(Seq(0)));
        }
    }
}

/// A page of the log, as its header describes it.
struct Page {
    place: Range<u64>,
    records: Range<u64>,
    events: u64,
    definitions: u64,
}

fn pages(file: &[u8], log: u64) -> Vec<Page> {
    let word = |at: u64| u64::from_le_bytes(file[at as usize..][..8].try_into().unwrap());
    let at = (log..file.len() as u64).filter(|at| file[*at as usize..].starts_with(b"GPUMPAGE"));
    at.map(|at| Page {
        place: at..at + 144 + (word(at + 64) & 0xffff_ffff),
        records: word(at + 24)..word(at + 32),
        events: word(at + 40) & 0xffff_ffff,
        definitions: word(at + 40) >> 32,
    })
    .collect()
}

#[test]
fn a_damaged_page_is_missed_only_if_no_state_holds_it() {
    let folder = in_memory();
    let (path, copy) = (folder.path().join("report.bin"), folder.path().join("copy"));
    record(&path, 400_000);
    let whole = found(&path).counts;
    let file = std::fs::read(&path).unwrap();
    let [state, other, log] = areas(&path).map(|at| at as usize);
    let kept =
        [state, other].map(|at| u64::from_le_bytes(file[at + 24..][..8].try_into().unwrap()));
    let kept = kept[0].max(kept[1]);
    let pages = pages(&file, log as u64);
    let newest = pages.iter().max_by_key(|page| page.records.end).unwrap();
    let end = newest.records.end;
    let (mut fine, mut said) = (0, 0);
    // Pages of all ages, among them the newest, which no page follows.
    let places = (log..file.len()).step_by(150_001);
    for place in places.map(|at| at as u64).chain([newest.place.start + 150]) {
        std::fs::write(&copy, &file).unwrap();
        flip(&copy, place);
        let found = found(&copy);
        let page = pages.iter().rfind(|page| page.place.contains(&place));
        let Some(page) = page.filter(|page| page.records.end > kept) else {
            assert!(found.integrity.is_whole(), "{:?}", found.integrity);
            assert_eq!(found.counts, whole);
            fine += 1;
            continue;
        };
        let [damage] = &found.integrity.damage[..] else {
            panic!("{:?}", found.integrity)
        };
        let follows = (page.records.end < end).then_some(Seq(page.records.end));
        assert_eq!(damage.first_missing, Some(Seq(page.records.start)));
        assert_eq!(damage.next_good, follows);
        assert_eq!(found.integrity.events, 400_000 - page.events);
        // A gap is detected where events were lost and others follow.
        let expected = match follows {
            Some(_) => whole.next[0],
            None => whole.next[0] - page.events,
        };
        let counts = Counts {
            next: [expected, 0, 0, 0],
            definitions: whole.definitions - page.definitions,
            wrong: u64::from(follows.is_some() && page.events > 0),
        };
        assert_eq!(found.counts, counts);
        said += 1;
    }
    assert!(fine >= 4 && (said >= 1 || kept == end), "{fine} {said}");
}
