use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

use super::*;

fn cache() -> Box<StackCache> {
    let layout = Layout::new::<StackCache>();
    // SAFETY: the layout is not of size 0; all zeros are an empty cache.
    unsafe {
        let new = alloc_zeroed(layout).cast::<StackCache>();
        if new.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(new)
    }
}

/// Memory that is no stack, but may be read as one.
struct Memory(Vec<u64>);

impl Memory {
    fn words(&self) -> Vec<Word> {
        let words = self.0.iter();
        let word = |place: &u64| Word {
            at: place as *const u64 as u64,
            held: *place,
        };
        words.map(word).collect()
    }

    fn add(&self, cache: &mut StackCache, from: Place) {
        let words = self.words();
        cache.add(&Walked {
            from,
            by_bp: true,
            words: &words,
            kept: &vec![true; words.len()],
            first_is_kept: false,
            hash: words.iter().map(|word| word.held).sum(),
            len: words.len(),
        });
    }
}

fn find(cache: &mut StackCache, from: Place) -> Option<usize> {
    // SAFETY: all words of these tests are in a vector that is alive.
    unsafe { cache.find(from) }
}

fn place(sp: u64) -> Place {
    let (pc, bp) = (7, 9);
    Place { pc, sp: 8 * sp, bp }
}

#[test]
fn every_word_is_compared() {
    for count in [1, 3, 4, 15, 16, 47, 48, 49, 80, 333, 1100] {
        let (mut cache, mut memory) = (cache(), Memory((1..=count).collect()));
        memory.add(&mut cache, place(1));
        let found = find(&mut cache, place(1)).unwrap();
        let newest_first: Vec<u64> = (1..=count).rev().collect();
        assert_eq!(cache.frames(found).collect::<Vec<_>>(), newest_first);
        for word in 0..memory.0.len() {
            memory.0[word] += 1;
            assert_eq!(find(&mut cache, place(1)), None, "{word} of {count}");
            memory.0[word] -= 1;
        }
        assert_eq!(find(&mut cache, place(1)), Some(found));
        let Place { pc, sp, bp } = place(1);
        for other in [(pc + 1, sp, bp), (pc, sp + 8, bp), (pc, sp, bp + 1)] {
            let (pc, sp, bp) = other;
            assert_eq!(find(&mut cache, Place { pc, sp, bp }), None);
        }
    }
}

/// The same newest words on thousands of different older ones, so that blocks and own words are evicted.
#[test]
fn what_made_room_is_not_taken_for_what_is_there_now() {
    let (mut cache, mut memory) = (cache(), Memory(vec![5; 130]));
    let stack = |memory: &mut Memory, number: u64| {
        memory.0[..110].fill(number);
    };
    const STACKS: u64 = 1500;
    for number in 0..STACKS {
        stack(&mut memory, number);
        memory.add(&mut cache, place(number));
    }
    let mut found = 0;
    for now in (0..STACKS).rev().step_by(7) {
        stack(&mut memory, now);
        for number in 0..STACKS {
            if find(&mut cache, place(number)).is_some() {
                assert_eq!(number, now);
                found += 1;
            }
        }
    }
    assert!((2..200).contains(&found), "{found}");
}

#[test]
fn stacks_that_begin_alike_share_their_blocks() {
    let (mut cache, mut memory) = (cache(), Memory((0..200).collect()));
    for newest in 0..50 {
        memory.0[199] = 1000 + newest;
        memory.add(&mut cache, place(1));
        assert!(find(&mut cache, place(1)).is_some());
    }
    assert_eq!(cache.blocks_so_far, 5);
    // Blocks of the same words on top of different ones are different blocks.
    for oldest in 0..600 {
        memory.0[0] = 1000 + oldest;
        memory.add(&mut cache, place(1));
        assert!(find(&mut cache, place(1)).is_some());
    }
}

#[test]
fn a_note_is_of_one_entry_and_one_owner() {
    let (mut cache, memory) = (cache(), Memory(vec![5; 60]));
    let [a, b] = [1, 2].map(|sp| {
        memory.add(&mut cache, place(sp));
        find(&mut cache, place(sp)).unwrap()
    });
    assert_eq!(cache.noted(a, 0), None);
    cache.note(a, 70, 3);
    assert_eq!((cache.noted(a, 70), cache.noted(b, 70)), (Some(3), None));
    assert_eq!(cache.noted(a, 71), None);
    cache.note(b, 71, 4);
    assert_eq!((cache.noted(a, 71), cache.noted(b, 71)), (None, Some(4)));
    assert_eq!((cache.noted(a, 70), cache.noted(b, 70)), (None, None));
    // A different stack instead of the one with the note.
    cache.clear();
    memory.add(&mut cache, place(2));
    let again = find(&mut cache, place(2)).unwrap();
    assert_eq!(cache.noted(again, 71), None);
}
