//! Reads rules from the unwind tables that compilers write (DWARF call frame information).
//!
//! The system's unwinder finds the table entry (FDE) that covers an address, so that both use the same
//! entries. The entry is read with gimli. Nothing is allocated.

use core::ffi::c_void;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, Operation, Register, RegisterRule,
    UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};

use super::rule::{Cfa, OlderBp, Step};
use crate::functions::FUNCTIONS;
use crate::{bounds, modules};

/// `struct dwarf_eh_bases` of libgcc's unwind-dw2-fde.h.
#[repr(C)]
struct Bases {
    text: *const c_void,
    data: *const c_void,
    function: *const c_void,
}

type FindFde = unsafe extern "C" fn(*const c_void, *mut Bases) -> *const u8;

fn finder() -> Option<FindFde> {
    let address = FUNCTIONS.find_fde.address()?;
    // SAFETY: the address is that of the unwinder's function, whose type this is.
    Some(unsafe { core::mem::transmute::<usize, FindFde>(address) })
}

/// The same on the stack, because programs may be short of memory here.
struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

type Section = EhFrame<EndianSlice<'static, LittleEndian>>;

/// What to do at the return address `pc`.
#[cold]
pub(super) fn step(pc: u64) -> Step {
    read(pc).unwrap_or(Step::Other)
}

/// `None` if the tables do not determine the step.
fn read(pc: u64) -> Option<Step> {
    let call = pc.checked_sub(1)?;
    // Code that is in no module may be replaced by other code later.
    let module = modules::find(call)?;
    let (entry, bases) = entry(call)?;
    if entry.is_null() {
        return (!is_signal_return(pc, module.end)).then_some(Step::End);
    }
    // SAFETY: an entry of the loaded module whose code is on the stack: it stays while this runs.
    let (section, base, offset) = unsafe { around(entry) }?;
    let bases = BaseAddresses::default()
        .set_eh_frame(base)
        .set_text(bases.text as u64)
        .set_got(bases.data as u64);
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let entry = section
        .fde_from_offset(&bases, offset.into(), Section::cie_from_offset)
        .ok()?;
    if entry.is_signal_trampoline() || !entry.contains(call) {
        return None;
    }
    let row = entry
        .unwind_info_for_address(&section, &bases, &mut context, call)
        .ok()?;
    of_row(&section, row)
}

/// The entry that covers `call`, null if there is no entry; `None` if no look-up function exists.
fn entry(call: u64) -> Option<(*const u8, Bases)> {
    let mut bases = Bases {
        text: core::ptr::null(),
        data: core::ptr::null(),
        function: core::ptr::null(),
    };
    // SAFETY: it takes any address, and fills `bases` where it finds an entry.
    let entry = unsafe { finder()?(call as *const c_void, &mut bases) };
    Some((entry, bases))
}

/// Whether a stack ends at the return address `pc`, as long as no code is generated there: it is in no
/// module, and no entry covers it. The system's unwinder would read there without a check.
#[cold]
pub(super) fn is_no_code(pc: u64) -> bool {
    let call = pc.wrapping_sub(1);
    modules::find(call).is_none()
        && entry(call).is_some_and(|(entry, _)| entry.is_null())
        && !returns_from_signal(pc)
}

/// Whether `pc` is where a signal handler returns to.
#[cold]
pub(super) fn returns_from_signal(pc: u64) -> bool {
    // Nine bytes: the word here, and the one that ends with the last of them.
    bounds::is_readable(pc)
        && bounds::is_readable(pc.wrapping_add(1))
        && is_signal_return(pc, u64::MAX)
}

/// The bytes that hold an entry and the data it refers to, their address, and the offset of the entry.
///
/// # Safety
/// `entry` is an entry of a loaded `.eh_frame`.
unsafe fn around(entry: *const u8) -> Option<(Section, u64, usize)> {
    let word = |at: u64| {
        // SAFETY: the words that every entry begins with.
        unsafe { (at as *const u32).read_unaligned() }
    };
    let entry = entry as u64;
    // Length, distance back to the common entry (CIE); the 64-bit form is not met in practice.
    let length = |at: u64| match word(at) {
        0 | u32::MAX => None,
        length => Some(4 + u64::from(length)),
    };
    let end = entry.checked_add(length(entry)?)?;
    let common = (entry + 4).checked_sub(word(entry + 4).into())?;
    let common_end = common.checked_add(length(common)?)?;
    let (first, last) = (entry.min(common), end.max(common_end));
    // SAFETY: both lie in the same loaded section, and so does what is between them.
    let bytes = unsafe { core::slice::from_raw_parts(first as *const u8, (last - first) as usize) };
    let offset = (entry - first) as usize;
    Some((EhFrame::new(bytes, LittleEndian), first, offset))
}

/// Whether `pc` is where a signal handler returns to: it has no table entry on some systems.
fn is_signal_return(pc: u64, end: u64) -> bool {
    // mov rax, 15; syscall
    const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    if pc.saturating_add(CODE.len() as u64) > end {
        return false;
    }
    // SAFETY: code of a loaded module, up to its end, or what the caller has found to be readable.
    unsafe { (pc as *const [u8; 9]).read_unaligned() == CODE }
}

fn of_row(section: &Section, row: &UnwindTableRow<usize, OnStack>) -> Option<Step> {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Some(Step::End),
        Some(RegisterRule::Offset(-8)) => {}
        _ => return None,
    }
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            let offset = i32::try_from(*offset).ok()?;
            match *register {
                X86_64::RSP => Cfa::Sp(offset),
                X86_64::RBP => Cfa::Bp(offset),
                _ => return None,
            }
        }
        CfaRule::Expression(expression) => match at_bp(section, expression)? {
            (offset, true) => Cfa::AtBp(offset),
            (_, false) => return None,
        },
    };
    let bp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue) => OlderBp::Same,
        Some(RegisterRule::Offset(offset)) => OlderBp::AtCfa(i32::try_from(offset).ok()?),
        Some(RegisterRule::Expression(expression)) => match at_bp(section, &expression)? {
            (offset, false) => OlderBp::AtBp(offset),
            (_, true) => return None,
        },
        _ => return None,
    };
    Some(Step::Older(cfa, bp))
}

/// Whether an expression is the frame pointer plus an offset; also whether the word at that address is
/// meant.
fn at_bp(section: &Section, expression: &UnwindExpression<usize>) -> Option<(i32, bool)> {
    let encoding = gimli::Encoding {
        address_size: 8,
        format: gimli::Format::Dwarf32,
        version: 4,
    };
    let mut operations = expression.get(section).ok()?.operations(encoding);
    let offset = match operations.next().ok()?? {
        Operation::RegisterOffset {
            register: X86_64::RBP,
            offset,
            ..
        } => i32::try_from(offset).ok()?,
        _ => return None,
    };
    match operations.next().ok()? {
        None => Some((offset, false)),
        Some(Operation::Deref {
            size: 8,
            space: false,
            ..
        }) => operations.next().ok()?.is_none().then_some((offset, true)),
        Some(_) => None,
    }
}
