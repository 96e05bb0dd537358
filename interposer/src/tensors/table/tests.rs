use super::*;
use gpumem_capture::{EventFlags, Options, StackId};
use std::collections::HashMap;

fn tensors() -> Tensors {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("gpumem-tensors-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let writer = Writer::create(&path, &Options::default().ring_slots(64)).unwrap();
    std::fs::remove_file(path).unwrap();
    Tensors::new(writer)
}

/// A block on a device that depends on `ptr`; a few are on one without lines.
fn block(ptr: u64, bytes: u64, context: u64) -> Block {
    Block {
        bytes,
        context,
        device: DeviceOrdinal(if ptr.is_multiple_of(11) {
            100
        } else {
            ptr as u8 % 8
        }),
        flags: EventFlags(bytes as u16),
        py_stack: StackId(bytes as u32 + 1),
    }
}

/// Adds it like a hook.
fn insert(tensors: &Tensors, ptr: u64, new: &Block) -> Option<Block> {
    let tensor = tensors.tensor(new.device, ptr);
    match tensor.hold().is_some_and(|mut guard| guard.insert(new)) {
        true => None,
        false => tensor.insert(new),
    }
}

/// Removes it like a hook that gets this device.
fn remove(tensors: &Tensors, device: DeviceOrdinal, ptr: u64) -> Option<Block> {
    let tensor = tensors.tensor(device, ptr);
    let in_line = tensor.hold().and_then(|mut guard| guard.remove());
    in_line.or_else(|| tensor.remove())
}

/// Pseudo-random numbers.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

#[test]
fn it_holds_what_a_map_holds() {
    let tensors = tensors();
    let mut expected: HashMap<u64, Block> = HashMap::new();
    let mut number = numbers(7);
    // More than there are entries at first, then fewer and fewer.
    for turn in 0..400_000u64 {
        let ptr = 512 + number(if turn < 200_000 { 400_000 } else { 2_000 });
        // A few are of a kind that no line holds, and a few move to another device.
        let context = u64::from(number(50) == 0);
        let other = if number(50) == 0 { 3 } else { ptr };
        let device = block(other, 0, 0).device;
        match number(3) {
            0 => {
                let found = remove(&tensors, device, ptr);
                assert_eq!(found, expected.remove(&ptr), "{ptr}");
            }
            1 => assert_eq!(tensors.at(ptr), expected.get(&ptr).copied(), "{ptr}"),
            _ => {
                // Without its release no other device can have the address.
                let before = expected.get(&ptr).map_or(device, |before| before.device);
                let new = Block {
                    device: before,
                    ..block(ptr, turn, context)
                };
                let found = insert(&tensors, ptr, &new);
                assert_eq!(found, expected.insert(ptr, new), "{ptr}");
            }
        }
    }
    assert!(!tensors.others.is_empty());
    let mut seen = HashMap::new();
    tensors.each(|ptr, block| assert_eq!(seen.insert(ptr, *block), None));
    assert_eq!(seen, expected);
    for (ptr, block) in expected {
        assert_eq!(remove(&tensors, block.device, ptr), Some(block));
    }
    assert!(tensors.others.is_empty());
    let all = tensors.lines.iter().flatten();
    assert!(all.into_iter().all(|line| {
        // SAFETY: this test has them alone.
        let line = unsafe { &*line.get() };
        line.elsewhere == 0 && line.places.iter().all(|entry| entry.ptr == 0)
    }));
}

#[test]
fn the_first_tensor_of_a_device_is_found() {
    let tensors = tensors();
    for ptr in [1, 2, 11] {
        let new = block(ptr, 7, 0);
        assert_eq!(insert(&tensors, ptr, &new), None);
        assert_eq!(tensors.at(ptr), Some(new));
        let other = DeviceOrdinal(new.device.0 ^ 1);
        assert_eq!(remove(&tensors, other, ptr), Some(new));
        assert_eq!(tensors.at(ptr), None);
    }
}

#[test]
fn a_tensor_is_taken_out_once() {
    const TENSORS: u64 = 20_000;
    let tensors = tensors();
    let at = |own: u64| (512 * own, block(512 * own, own, 0));
    let taken: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let tensors = &tensors;
                scope.spawn(move || {
                    let mut number = numbers(thread + 1);
                    let mut taken = 0;
                    for turn in 0..TENSORS {
                        let (ptr, new) = at(8 * (turn + 1) + thread);
                        assert_eq!(insert(tensors, ptr, &new), None);
                        // A recent one of any thread.
                        let other = 8 * (turn + 1).saturating_sub(number(4)) + number(8);
                        let (ptr, expected) = at(other);
                        if let Some(found) = remove(tensors, expected.device, ptr) {
                            assert_eq!(found, expected);
                            taken += 1;
                        }
                    }
                    taken
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    let left = (8..8 * (TENSORS + 1)).filter_map(|own| {
        let (ptr, expected) = at(own);
        remove(&tensors, expected.device, ptr)
    });
    assert_eq!(taken + left.count() as u64, 8 * TENSORS);
}
