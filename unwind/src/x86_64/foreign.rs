//! The walk of a stack that is not the thread's own: a fiber's, a signal handler's. Its bounds are unknown, and it may
//! be gone at the next call. So each page is probed before a word of it is read, and nothing is remembered.

use super::rule::{Cfa, OlderBp, Step};
use super::state::WALK;
use super::{Unwinder, tables};
use crate::modules::Span;
use crate::{Registers, Stack, bounds, chain};

/// The page that was probed last.
#[derive(Default)]
struct Probe {
    page: u64,
}

impl Probe {
    /// The word at an address; None if it is not aligned, or there is no memory.
    fn load(&mut self, at: u64) -> Option<u64> {
        let page = at | 0xfff;
        if at & 7 != 0 || (page != self.page && !bounds::is_readable(at)) {
            return None;
        }
        self.page = page;
        // SAFETY: a word of a page that can be read, as the kernel has just found. It is part of a stack of this
        // thread, which nobody unmaps while it runs.
        Some(unsafe { (at as *const u64).read() })
    }
}

/// Words of the `ucontext_t` that the kernel leaves where a signal handler returns to.
const BP: u64 = 120;
const SP: u64 = 160;
const PC: u64 = 168;

impl Unwinder {
    /// Captures a stack from `from` on, without frames in `own`. It ends where no rule leads on.
    #[cold]
    #[inline(never)]
    pub(super) fn foreign(&mut self, from: Registers, own: &Span) -> Stack {
        self.states_len = 0;
        (self.from_system, self.entry) = (true, 0);
        let mut stack = Stack::default();
        let mut probe = Probe::default();
        let Registers {
            mut pc,
            mut sp,
            mut bp,
        } = from;
        // Where a signal arrived, the address is that of the next instruction and not of the one after a call.
        let mut is_interrupted = false;
        for _ in 0..WALK {
            if !own.contains(pc.wrapping_sub(1)) {
                let Some(place) = self.others.get_mut(stack.len) else {
                    stack.truncated = true;
                    break;
                };
                *place = pc;
                stack.len += 1;
            }
            let after = pc.wrapping_add(u64::from(is_interrupted));
            let older = match self.rule(after).step() {
                Step::Older(cfa, older_bp) => {
                    is_interrupted = false;
                    // Who switches stacks continues at any address.
                    let older = older(&mut probe, (cfa, older_bp), sp, bp);
                    older.filter(|older| older.sp != sp)
                }
                Step::Other if tables::returns_from_signal(pc) => {
                    is_interrupted = true;
                    interrupted(&mut probe, sp)
                }
                // More registers than the two are needed.
                Step::Other if !tables::is_no_code(pc) => return self.system(own),
                Step::End | Step::Other => None,
            };
            match older {
                Some(older) if older.pc != 0 => Registers { pc, sp, bp } = older,
                _ => break,
            }
        }
        self.others_len = stack.len;
        let frames = self.others.get(..stack.len).unwrap_or_default();
        stack.hash = frames.iter().rev().fold(0, |hash, pc| chain(hash, *pc));
        stack
    }
}

/// The older frame by a rule.
fn older(
    probe: &mut Probe,
    (cfa, older_bp): (Cfa, OlderBp),
    sp: u64,
    bp: u64,
) -> Option<Registers> {
    let offset = |base: u64, offset: i32| base.wrapping_add(i64::from(offset) as u64);
    let cfa = match cfa {
        Cfa::Sp(at) => offset(sp, at),
        Cfa::Bp(at) => offset(bp, at),
        Cfa::AtBp(at) => probe.load(offset(bp, at))?,
    };
    let bp = match older_bp {
        OlderBp::Same => bp,
        OlderBp::AtCfa(at) => probe.load(offset(cfa, at))?,
        OlderBp::AtBp(at) => probe.load(offset(bp, at))?,
    };
    let pc = probe.load(cfa.wrapping_sub(8))?;
    Some(Registers { pc, sp: cfa, bp })
}

/// The registers that a signal interrupted, of a handler's return address with that stack pointer.
fn interrupted(probe: &mut Probe, sp: u64) -> Option<Registers> {
    let mut word = |at: u64| probe.load(sp.wrapping_add(at));
    Some(Registers {
        pc: word(PC)?,
        sp: word(SP)?,
        bp: word(BP)?,
    })
}
