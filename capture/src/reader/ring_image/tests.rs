use std::os::unix::fs::FileExt as _;

use super::*;

fn put(file: &std::fs::File, seq: u64, words: [u64; 8]) {
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    file.write_all_at(&bytes, layout::RING_OFFSET + 64 * seq)
        .unwrap();
}

/// An event as it is committed.
fn event(checks: &Checks, seq: u64) -> [u64; 8] {
    let mut words = slot::event_words(&crate::Event {
        kind: EventKind::ALLOC,
        ptr: 1000 + seq,
        ..Default::default()
    });
    words[0] = checks.record(seq, &words, std::iter::empty());
    words
}

/// A record that was read while being committed is read again, and damaged records stay damaged.
#[test]
fn a_torn_record_is_read_again() {
    let checks = Checks::new(7);
    let path = tempfile::NamedTempFile::new().unwrap();
    let file = path.as_file();
    file.set_len(layout::ring_end(64)).unwrap();
    let event = |seq| event(&checks, seq);
    let torn = |seq: u64| {
        let [commit, time, ..] = event(seq);
        [commit, time, 0, 0, 0, 0, 0, 0]
    };
    for seq in 0..3 {
        put(file, seq, if seq == 1 { torn(1) } else { event(seq) });
    }
    let input = Input::of(path.path(), file.try_clone().unwrap());
    let mut image = RingImage::new(64, checks);
    image.load(&input, layout::RING_OFFSET).unwrap();
    let is_record = |image: &RingImage| matches!(image.slot(1, 64), Slot::Record(1, _));
    image.read_changed_again(&input, 0).unwrap();
    assert!(matches!(image.slot(1, 64), Slot::Damaged(_)));
    put(file, 1, event(1));
    image.read_changed_again(&input, 0).unwrap();
    assert!(is_record(&image) && matches!(image.slot(2, 64), Slot::Record(1, _)));
}

/// A record that was committed after it was read, and before the one after it was, is not missing.
#[test]
fn no_record_is_missing_before_a_later_one() {
    let checks = Checks::new(7);
    let path = tempfile::NamedTempFile::new().unwrap();
    let file = path.as_file();
    file.set_len(layout::ring_end(64)).unwrap();
    let put_event = |seq| put(file, seq, event(&checks, seq));
    let input = Input::of(path.path(), file.try_clone().unwrap());
    let mut image = RingImage::new(64, checks);
    [0, 3, 5].into_iter().for_each(put_event);
    image.load(&input, layout::RING_OFFSET).unwrap();
    // After the image was read. No record follows 6.
    [1, 2, 6].into_iter().for_each(put_event);
    image.read_changed_again(&input, 0).unwrap();
    let found: Vec<u64> = (0..64)
        .filter(|&seq| matches!(image.slot(seq, 64), Slot::Record(..)))
        .collect();
    assert_eq!(found, [0, 1, 2, 3, 5]);
}

/// The time to read a ring is bounded, also if each of its slots begins a record as long as the ring.
#[test]
fn records_that_overlap_take_no_time() {
    const SLOTS: u64 = 4096;
    let checks = Checks::new(7);
    let path = tempfile::NamedTempFile::new().unwrap();
    let file = path.as_file();
    file.set_len(layout::ring_end(SLOTS as u32)).unwrap();
    for seq in 0..SLOTS {
        let (slots, kind) = (SLOTS - seq, DefKind(200));
        let bytes = (slots - 1) * SLOT_BYTES as u64;
        let mut words = slot::definition_words(kind, bytes, slots as u32);
        words[0] = u64::from(checksum::tag(seq, 7));
        put(file, seq, words);
    }
    let input = Input::of(path.path(), file.try_clone().unwrap());
    let mut image = RingImage::new(SLOTS as u32, checks);
    image.load(&input, layout::RING_OFFSET).unwrap();
    image.read_changed_again(&input, 0).unwrap();
    assert!((0..SLOTS).all(|seq| matches!(image.slot(seq, SLOTS), Slot::Damaged(_))));
    let in_vain = image.in_vain.get();
    assert!(
        (SLOTS..=(IN_VAIN + 1) * SLOTS).contains(&in_vain),
        "{in_vain}"
    );
}
