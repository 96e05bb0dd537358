//! The unwinder compared with the system's, on stacks of this test program.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::hint::black_box;

use super::*;
use crate::capture;

fn unwinder() -> Box<Unwinder> {
    let layout = Layout::new::<Unwinder>();
    // SAFETY: the layout is not of size 0; all zeros are an unwinder that has seen nothing.
    unsafe {
        let new = alloc_zeroed(layout).cast::<Unwinder>();
        if new.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(new)
    }
}

/// The stack by both, starting at the function that calls this.
#[inline(never)]
fn both(unwinder: &mut Unwinder) -> (Vec<u64>, Vec<u64>, Stack) {
    let mut system = [0; FRAMES * 2];
    let (stack, captured) = black_box((unwinder.take(None, None), capture(&mut system, 0)));
    let mut ours = [0; FRAMES];
    let len = unwinder.frames(&mut ours);
    assert_eq!(len, stack.len);
    assert!(!stack.truncated || len == FRAMES);
    // Newer than the shared frames: `take` itself, and this function, which calls both from two different places.
    let system = &system[1..captured.len];
    let first = ours
        .iter()
        .position(|frame| *frame == system[0])
        .expect("shared");
    assert!(first <= 5);
    let ours = ours[first..len].to_vec();
    let system = if stack.truncated {
        &system[..ours.len()]
    } else {
        system
    };
    (ours, system.to_vec(), stack)
}

fn check(unwinder: &mut Unwinder) -> Stack {
    let (ours, system, stack) = both(unwinder);
    assert!(system.len() > 3);
    assert_eq!(ours, system);
    stack
}

#[inline(never)]
fn recurse(depth: usize, unwinder: &mut Unwinder, hashes: &mut Vec<u64>) -> usize {
    let stack = check(unwinder);
    hashes.push(stack.hash);
    let below = match depth {
        0 => stack.len,
        _ => recurse(depth - 1, unwinder, hashes),
    };
    // On the way back, the memory of the deeper stack does not help.
    hashes.push(check(unwinder).hash);
    black_box(below)
}

#[test]
fn equals_the_systems_unwinder() {
    let mut unwinder = unwinder();
    let mut hashes = Vec::new();
    for _ in 0..3 {
        recurse(40, &mut unwinder, &mut hashes);
    }
    assert_eq!(unwinder.system_stacks(), 0);
    let (first, rest) = hashes.split_at(82);
    // The same places, the same hashes: but for the loop's own, all of the program's stacks recur.
    assert_eq!(first, &rest[..82]);
    let mut distinct = first.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 82);
}

#[inline(never)]
fn turn(random: &mut u64) -> u64 {
    *random = random
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *random >> 33
}

#[inline(never)]
fn left(unwinder: &mut Unwinder, random: &mut u64, depth: u32) -> u64 {
    let room = [depth; 5];
    check(unwinder);
    let below = wander(unwinder, random, depth);
    below + u64::from(black_box(&room)[2])
}

#[inline(never)]
fn right(unwinder: &mut Unwinder, random: &mut u64, depth: u32) -> u64 {
    let room = vec![1u8; depth as usize + 1];
    let below = wander(unwinder, random, depth);
    check(unwinder);
    below + u64::from(black_box(&room)[0])
}

fn wander(unwinder: &mut Unwinder, random: &mut u64, depth: u32) -> u64 {
    if depth > 25 {
        return 0;
    }
    match turn(random) % 5 {
        0 | 1 => left(unwinder, random, depth + 1),
        2 | 3 => right(unwinder, random, depth + 1),
        _ => 0,
    }
}

#[test]
fn random_stacks_equal_the_systems() {
    let (mut unwinder, mut random) = (unwinder(), 1);
    for _ in 0..3000 {
        wander(&mut unwinder, &mut random, 0);
    }
    assert_eq!(unwinder.system_stacks(), 0);
}

#[inline(never)]
fn one_way(unwinder: &mut Unwinder) -> (Vec<u64>, Vec<u64>, Stack) {
    black_box(deep(6, unwinder))
}

#[inline(never)]
fn another_way(unwinder: &mut Unwinder) -> (Vec<u64>, Vec<u64>, Stack) {
    black_box(deep(8, unwinder))
}

/// Calls `next` from one of three places, nested that often: different older frames for the same entry.
#[inline(never)]
fn around(
    unwinder: &mut Unwinder,
    random: &mut u64,
    depth: u64,
    next: &dyn Fn(&mut Unwinder, &mut u64),
) {
    match (depth, turn(random) % 3) {
        (0, _) => next(unwinder, random),
        (_, 0) => around(unwinder, random, depth - 1, next),
        (_, 1) => {
            around(unwinder, random, depth - 1, next);
            black_box(&random);
        }
        _ => {
            black_box(&random);
            around(unwinder, random, depth - 1, next);
            black_box(&unwinder);
        }
    }
}

#[test]
fn cached_stacks_equal_walked_ones() {
    let (mut unwinder, mut random) = (unwinder(), 3);
    let (mut cached, mut hashes) = (0, std::collections::HashMap::new());
    for turn_of_all in 0..4_000u64 {
        let seen = &std::cell::Cell::new((Vec::new(), Stack::default()));
        around(
            &mut unwinder,
            &mut random,
            turn_of_all % 7 / 3,
            &|unwinder, random| {
                let (ours, system, stack) = match turn(random) % 2 {
                    0 => one_way(unwinder),
                    _ => another_way(unwinder),
                };
                assert_eq!(ours, system);
                assert_eq!(stack.len, unwinder.frames(&mut [0; FRAMES]));
                seen.set((ours, stack));
            },
        );
        cached += u32::from(unwinder.entry != 0);
        let (frames, stack) = seen.take();
        // The same hash for the same frames, cached or walked.
        assert_eq!(*hashes.entry(frames).or_insert(stack.hash), stack.hash);
    }
    assert!(cached > 2_000, "{cached}");
    assert!(hashes.len() > 5, "{}", hashes.len());
    assert_eq!(unwinder.system_stacks(), 0);
}

#[test]
fn the_cache_is_emptied_when_a_module_is_unloaded() {
    let mut unwinder = unwinder();
    let mut cached = Vec::new();
    for turn in 0..black_box(5) {
        if turn == 3 {
            unwinder.generation = unwinder.generation.wrapping_sub(1);
        }
        let (ours, system, _) = one_way(&mut unwinder);
        assert_eq!(ours, system);
        cached.push(unwinder.entry != 0);
    }
    assert_eq!(cached, [false, true, true, false, true]);
}

#[inline(never)]
fn deep(depth: usize, unwinder: &mut Unwinder) -> (Vec<u64>, Vec<u64>, Stack) {
    let found = match depth {
        0 => both(unwinder),
        _ => deep(depth - 1, unwinder),
    };
    black_box(found)
}

#[test]
fn two_rules_have_room_in_one_place() {
    let mut unwinder = unwinder();
    let place = unwinder.pair_of(1);
    // None of them is code.
    let mut alike = (1..).filter(|pc| unwinder.pair_of(*pc) == place);
    let [a, b, c] = core::array::from_fn(|_| alike.next().unwrap());
    let kept = |unwinder: &mut Unwinder, pc| {
        assert_eq!(unwinder.rule(pc).pc, pc);
        unwinder.rules[place].map(|rule| rule.pc)
    };
    assert_eq!(kept(&mut unwinder, a), [a, 0]);
    assert_eq!(kept(&mut unwinder, b), [b, a]);
    assert_eq!(kept(&mut unwinder, a), [a, b]);
    assert_eq!(kept(&mut unwinder, c), [c, a]);
}

#[test]
fn the_rules_of_little_code_are_on_one_page() {
    let mut unwinder = unwinder();
    let used = |unwinder: &Unwinder| {
        let is_used = |pair: &[Rule; 2]| *pair != [Rule::default(); 2];
        1 + unwinder.rules.iter().rposition(is_used).unwrap()
    };
    let page = 4096 / size_of::<[Rule; 2]>();
    (1..=100).for_each(|pc| assert_eq!(unwinder.rule(pc).pc, pc));
    assert!(used(&unwinder) <= page);
    // With more code, all have room.
    for _ in 0..8 {
        (1..=3_000).for_each(|pc| assert_eq!(unwinder.rule(pc).pc, pc));
    }
    assert!(used(&unwinder) > 16 * page);
}

#[test]
fn deep_stacks_keep_the_newest_frames() {
    let mut unwinder = unwinder();
    for depth in [400, 480, 520, 570, 600, 2000, 570, 400, 2000, 10] {
        let (ours, system, stack) = deep(depth, &mut unwinder);
        assert_eq!(ours, system, "{depth}");
        assert_eq!(stack.truncated, depth > 500, "{depth}");
        let again = deep(depth, &mut unwinder).2;
        assert_eq!((again.len, again.truncated), (stack.len, stack.truncated));
    }
    assert_eq!(unwinder.system_stacks(), 0);
}

/// Captures the stack on the way down and on the way up; records the number of walked frames at each place.
#[inline(never)]
fn down_and_up(depth: usize, unwinder: &mut Unwinder, walked: &mut Vec<usize>) -> u64 {
    let before = look(unwinder, walked);
    if depth > 0 {
        black_box(down_and_up(depth - 1, unwinder, walked));
    }
    black_box(look(unwinder, walked) ^ before)
}

#[inline(never)]
fn look(unwinder: &mut Unwinder, walked: &mut Vec<usize>) -> u64 {
    let stack = check(unwinder);
    let found = unwinder.walk(Registers::here());
    walked.push(found.map_or(usize::MAX, |joined| joined.len));
    stack.hash
}

#[test]
fn deep_stacks_are_remembered() {
    let mut unwinder = unwinder();
    let mut walked = Vec::new();
    down_and_up(1500, &mut unwinder, &mut walked);
    assert_eq!(walked.len(), 2 * 1501);
    assert!(walked.iter().all(|walked| *walked <= 8), "{walked:?}");
    assert_eq!(unwinder.system_stacks(), 0);
}

#[test]
fn frames_of_our_own_are_left_out() {
    let mut unwinder = unwinder();
    let inside = deep as *const () as u64;
    let (whole, ..) = deep(7, &mut unwinder);
    let end = *whole
        .iter()
        .filter(|pc| (inside..inside + 4096).contains(*pc))
        .max()
        .unwrap();
    let own = Span {
        start: inside,
        end,
        bias: 0,
    };
    unwinder.take(None, Some(own));
    #[inline(never)]
    fn with_own(depth: usize, unwinder: &mut Unwinder, own: Span) -> (usize, Vec<u64>) {
        let found = match depth {
            0 => {
                let stack = unwinder.take(None, Some(own));
                let mut frames = vec![0; FRAMES];
                let len = unwinder.frames(&mut frames);
                assert_eq!(len, stack.len);
                frames.truncate(len);
                (len, frames)
            }
            _ => with_own(depth - 1, unwinder, own),
        };
        black_box(found)
    }
    let inside = with_own as *const () as u64;
    let (_, all) = with_own(7, &mut unwinder, Span::NONE);
    let mine = all
        .iter()
        .filter(|pc| (inside..inside + 2048).contains(*pc));
    let end = *mine.clone().max().unwrap();
    assert_eq!(mine.count(), 8);
    let own = Span {
        start: inside,
        end,
        bias: 0,
    };
    let (fewer, kept) = with_own(7, &mut unwinder, own);
    assert_eq!(fewer, all.len() - 8);
    assert!(kept.iter().all(|pc| !own.contains(pc - 1)));
    // The same again where the stack is cached.
    let mut again = Vec::new();
    for _ in 0..black_box(3) {
        again.push((with_own(7, &mut unwinder, own), unwinder.entry != 0));
    }
    let [first, second, third] = again.try_into().unwrap();
    assert!(!first.1 && second.1 && second == third);
    assert_eq!(first.0, second.0);
}

/// New memory whose last page cannot be accessed: its address, and that of the last page.
fn guarded(bytes: usize) -> (*mut libc::c_void, u64) {
    const PAGE: usize = 4096;
    // SAFETY: new memory, which is never unmapped.
    unsafe {
        let memory = libc::mmap(
            core::ptr::null_mut(),
            bytes + PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        let end = memory.byte_add(bytes);
        assert_eq!(libc::mprotect(end, PAGE, libc::PROT_NONE), 0);
        (memory, end as u64)
    }
}

/// The stack by both, and how many stacks the system's unwinder had to take.
type Both = (Vec<u64>, Vec<u64>, u64);

thread_local! {
    static ON_A_FIBER: std::cell::RefCell<Vec<Both>> = Default::default();
}

extern "C" fn fiber() {
    let mut unwinder = unwinder();
    let (ours, system, _) = deep(black_box(9), &mut unwinder);
    let system_stacks = unwinder.system_stacks();
    ON_A_FIBER.with_borrow_mut(|found| found.push((ours, system, system_stacks)));
}

#[test]
fn the_stack_of_a_fiber_equals_the_systems() {
    const BYTES: usize = 1 << 20;
    let (memory, _) = guarded(BYTES);
    // SAFETY: two contexts of this thread; the second runs on its own memory and continues with the first.
    unsafe {
        let mut back: libc::ucontext_t = core::mem::zeroed();
        let mut context: libc::ucontext_t = core::mem::zeroed();
        assert_eq!(libc::getcontext(&mut context), 0);
        context.uc_stack.ss_sp = memory;
        context.uc_stack.ss_size = BYTES;
        context.uc_link = &mut back;
        libc::makecontext(&mut context, fiber, 0);
        assert_eq!(libc::swapcontext(&mut back, &context), 0);
    }
    let found = ON_A_FIBER.take();
    let [(ours, system, 0)] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(ours.len() > 9);
    assert_eq!(ours, system);
}

/// A fiber whose oldest return address is that of a function that has a frame beyond the fiber's memory.
#[test]
fn a_fiber_whose_stack_leads_out_of_its_memory_ends_there() {
    let (memory, end) = guarded(4096);
    let here = a_fiber_whose_stack_leads_out_of_its_memory_ends_there as *const () as u64 + 1;
    for words in 0..4 {
        let mut unwinder = unwinder();
        let from = Registers {
            pc: here,
            sp: end - 8 * words,
            bp: memory as u64,
        };
        let stack = unwinder.take(Some(from), None);
        assert_eq!(
            (stack.len, stack.truncated, unwinder.system_stacks()),
            (1, false, 0)
        );
    }
}

#[test]
fn every_thread_has_its_own_end() {
    let mut unwinder = unwinder();
    check(&mut unwinder);
    for _ in 0..20 {
        unwinder = std::thread::spawn(move || {
            unwinder.change_thread();
            check(&mut unwinder);
            check(&mut unwinder);
            unwinder
        })
        .join()
        .unwrap();
    }
    assert_eq!(unwinder.system_stacks(), 0);
}

#[test]
fn damaged_registers_read_nothing_outside_the_stack() {
    let mut unwinder = unwinder();
    let here = Registers::here();
    let mut random = 7;
    for _ in 0..20_000 {
        let noise = turn(&mut random) << 32 | turn(&mut random);
        let from = match turn(&mut random) % 4 {
            0 => Registers { bp: noise, ..here },
            1 => Registers {
                sp: here.sp + ((noise % 4096) & !7),
                ..here
            },
            2 => Registers {
                sp: here.sp + noise % 4096,
                bp: noise,
                ..here
            },
            _ => Registers {
                pc: here.pc + noise % 64,
                sp: here.sp,
                bp: here.sp + noise % 8192,
            },
        };
        unwinder.take(Some(from), None);
    }
    check(&mut unwinder);
}

/// Calls `function(unwinder)` from a frame whose CFA, according to its table entry, is at an address without
/// memory.
#[unsafe(naked)]
extern "C" fn from_nowhere(function: extern "C" fn(&mut Unwinder), unwinder: &mut Unwinder) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa rbp, 16",
        ".cfi_offset rbp, -16",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov ebp, 4096",
        "call rax",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

extern "C" fn take_from_nowhere(unwinder: &mut Unwinder) {
    let stack = unwinder.take(None, None);
    let mut frames = [0; FRAMES];
    let len = unwinder.frames(&mut frames);
    assert_eq!((len, stack.truncated), (stack.len, false));
    let nowhere = from_nowhere as *const () as u64;
    assert!(len <= 3 && (nowhere..nowhere + 64).contains(&frames[len - 1]));
}

/// Greenlets leave such stacks: beyond their first frame is the data of another greenlet. The system's unwinder
/// would read there without a check and crash the program.
#[test]
fn a_stack_that_leads_nowhere_ends() {
    let mut unwinder = unwinder();
    for _ in 0..3 {
        from_nowhere(take_from_nowhere, &mut unwinder);
    }
    assert_eq!(unwinder.system_stacks(), 0);
    check(&mut unwinder);
}

/// As `pc` of [`called_from`]: the return address stays.
const REAL: u64 = 1;

/// Calls `function(unwinder)` and makes its own caller unknown meanwhile: the return address is `pc`.
#[unsafe(naked)]
extern "C" fn called_from(
    function: extern "C" fn(&mut Unwinder),
    unwinder: &mut Unwinder,
    pc: u64,
) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push [rsp]",
        ".cfi_adjust_cfa_offset 8",
        "cmp rdx, 1",
        "je 2f",
        "mov [rsp + 8], rdx",
        "2:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "pop [rsp]",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
    )
}

extern "C" fn check_here(unwinder: &mut Unwinder) {
    let (ours, system, _) = both(unwinder);
    assert_eq!(ours, system);
}

/// The state of the newest frames is the same, and the rest of the stack differs: no caller, one in no module, one
/// in a module without a table entry there, the real one.
#[test]
fn what_a_stack_ended_with_is_looked_at_anew() {
    let mut unwinder = unwinder();
    let heap = vec![0u64; 64];
    static NO_CODE: [u64; 2] = [0; 2];
    let (heap, no_code) = (heap.as_ptr() as u64 + 64, NO_CODE.as_ptr() as u64 + 8);
    for pc in [0, heap, 0, no_code, 0, REAL, heap, REAL, no_code, REAL] {
        for _ in 0..2 {
            called_from(black_box(check_here), &mut unwinder, pc);
        }
    }
    assert_eq!(unwinder.system_stacks(), 0);
}

extern "C" fn take_to_no_memory(unwinder: &mut Unwinder) {
    let stack = unwinder.take(None, None);
    let mut frames = [0; FRAMES];
    let len = unwinder.frames(&mut frames);
    assert_eq!(len, stack.len);
    assert_eq!(frames[len - 1], 4096);
}

#[test]
fn a_caller_where_no_memory_is_ends_a_stack() {
    let mut unwinder = unwinder();
    called_from(take_to_no_memory, &mut unwinder, 4096);
    assert_eq!(unwinder.system_stacks(), 0);
    check(&mut unwinder);
}
