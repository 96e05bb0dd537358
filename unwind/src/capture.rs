//! The interface behind which the method of unwinding may change.

/// The result of [`capture`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The number of addresses.
    pub len: usize,
    /// Whether older frames were cut off because there was no room.
    pub truncated: bool,
}

/// Writes the return addresses of the calling thread to `out`, the newest first. The first one is in the
/// caller itself; `skip` omits that many of the newest.
///
/// Neither allocates nor takes a lock where the C library has `_dl_find_object` (glibc 2.35); on
/// older ones the system's unwinder takes the loader's lock for each frame.
#[inline(never)]
pub fn capture(out: &mut [u64], skip: usize) -> Captured {
    let mut captured = Captured::default();
    let mut to_skip = skip;
    // The newest frames, as long as their stack pointer is below this variable, are those of the unwinder
    // and of this function: the caller's frame is above. Older frames may be at any address, because a
    // signal handler may run on a separate stack.
    let own = 0u8;
    let own_frame = &raw const own as usize;
    let mut outside = false;
    let visit = |frame: &backtrace::Frame| {
        let address = frame.ip() as u64;
        outside |= frame.sp() as usize > own_frame;
        if !outside {
            return true;
        }
        if to_skip > 0 {
            to_skip -= 1;
            return true;
        }
        if address == 0 {
            return false;
        }
        match out.get_mut(captured.len) {
            Some(slot) => {
                *slot = address;
                captured.len += 1;
                true
            }
            None => {
                captured.truncated = true;
                false
            }
        }
    };
    // SAFETY: what is not synchronised is the crate's symboliser, which is never used here.
    unsafe { backtrace::trace_unsynchronized(visit) };
    captured
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(addresses: &[u64]) -> Vec<String> {
        let mut names = Vec::new();
        for &address in addresses {
            let mut innermost = None;
            backtrace::resolve((address - 1) as *mut _, |symbol| {
                if let Some(name) = symbol.name() {
                    innermost = Some(name.to_string());
                }
            });
            names.push(innermost.unwrap_or_default());
        }
        names
    }

    #[inline(never)]
    fn nested(depth: usize, out: &mut [u64], skip: usize) -> Captured {
        let captured = match depth {
            0 => capture(out, skip),
            _ => nested(depth - 1, out, skip),
        };
        std::hint::black_box(captured)
    }

    #[test]
    fn the_newest_frame_is_the_callers() {
        let mut out = [0; 256];
        let captured = nested(5, &mut out, 0);
        assert!(!captured.truncated);
        let names = names(&out[..captured.len]);
        let nested_frames = names.iter().take_while(|n| n.contains("nested")).count();
        assert_eq!(nested_frames, 6, "{names:#?}");
        assert!(
            names[6].contains("the_newest_frame_is_the_callers"),
            "{names:#?}"
        );
    }

    #[test]
    fn equals_the_backtrace_crates_own_walk() {
        let mut out = [0; 256];
        let captured = nested(3, &mut out, 0);
        let mut all = Vec::new();
        backtrace::trace(|frame| {
            all.push(frame.ip() as u64);
            true
        });
        // Both walks share all frames older than this function.
        let older = |addresses: &[u64]| {
            let names = names(addresses);
            let here = names
                .iter()
                .rposition(|n| n.contains("equals_the_backtrace"))
                .unwrap();
            addresses[here + 1..].to_vec()
        };
        all.retain(|&address| address != 0);
        let expected = older(&all);
        assert!(expected.len() > 3);
        assert_eq!(older(&out[..captured.len]), expected);
    }

    /// All calls are at one place in the code, so that the addresses are the same.
    fn several<const ROOM: usize>(depth: usize, skips: &[usize]) -> Vec<(Captured, [u64; ROOM])> {
        let mut all = Vec::new();
        for &skip in std::hint::black_box(skips) {
            let mut out = [0; ROOM];
            all.push((nested(depth, &mut out, skip), out));
        }
        all
    }

    #[test]
    fn skip_leaves_out_the_newest() {
        let all = several::<256>(4, &[0, 2, 1000]);
        let [(whole, frames), (less, fewer), (none, _)] = &all[..] else {
            panic!()
        };
        assert_eq!(less.len, whole.len - 2);
        assert_eq!(frames[2..whole.len], fewer[..less.len]);
        assert_eq!(*none, Captured::default());
    }

    #[test]
    fn a_full_buffer_keeps_the_newest_and_says_so() {
        let (whole, few) = (several::<256>(10, &[0]), several::<4>(10, &[0]));
        let expected = Captured {
            len: 4,
            truncated: true,
        };
        assert_eq!(few[0].0, expected);
        assert_eq!(whole[0].1[..4], few[0].1);
        assert_eq!(several::<0>(1, &[0])[0].0, Captured { len: 0, ..expected });
    }

    #[test]
    fn threads_have_their_own_stacks() {
        let lengths: Vec<_> = (0..4)
            .map(|depth| std::thread::spawn(move || nested(depth * 10, &mut [0; 256], 0).len))
            .map(|thread| thread.join().unwrap())
            .collect();
        assert!(
            lengths.windows(2).all(|pair| pair[1] == pair[0] + 10),
            "{lengths:?}"
        );
    }

    #[inline(never)]
    extern "C" fn interrupted(found: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the thread's alternate stack for signals, which is restored below; and a signal that
        // only this test uses, to this thread.
        unsafe {
            let found = &mut *found.cast::<Interrupted>();
            let on = libc::stack_t {
                ss_sp: found.room,
                ss_flags: 0,
                ss_size: HALF,
            };
            assert_eq!(libc::sigaltstack(&on, core::ptr::null_mut()), 0);
            assert_eq!(libc::raise(libc::SIGUSR2), 0);
            let off = libc::stack_t {
                ss_flags: libc::SS_DISABLE,
                ..on
            };
            assert_eq!(libc::sigaltstack(&off, core::ptr::null_mut()), 0);
        }
        core::ptr::null_mut()
    }

    struct Interrupted {
        room: *mut libc::c_void,
    }

    const HALF: usize = 1 << 20;
    static HANDLED: std::sync::Mutex<Vec<u64>> = std::sync::Mutex::new(Vec::new());

    extern "C" fn handler(_: libc::c_int) {
        let mut out = [0; 64];
        let captured = capture(&mut out, 0);
        HANDLED.lock().unwrap().extend(&out[..captured.len]);
    }

    #[test]
    fn a_signal_handlers_stack_above_the_threads() {
        // SAFETY: a thread whose stack is the lower half of new memory, and whose signals are handled in
        // the upper half; it ends before the memory would be used again.
        unsafe {
            let room = libc::mmap(
                core::ptr::null_mut(),
                2 * HALF,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(room, libc::MAP_FAILED);
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(
                libc::sigaction(libc::SIGUSR2, &action, core::ptr::null_mut()),
                0
            );
            let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
            assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
            assert_eq!(libc::pthread_attr_setstack(&mut attributes, room, HALF), 0);
            let mut found = Interrupted {
                room: room.byte_add(HALF),
            };
            let mut thread = 0;
            let created = libc::pthread_create(
                &mut thread,
                &attributes,
                interrupted,
                (&raw mut found).cast(),
            );
            assert_eq!(created, 0);
            assert_eq!(libc::pthread_join(thread, core::ptr::null_mut()), 0);
        }
        let names = names(&HANDLED.lock().unwrap());
        let place = |part: &str| names.iter().position(|name| name.contains(part));
        let (handler, interrupted) = (place("handler"), place("interrupted"));
        assert_eq!(handler, Some(0), "{names:?}");
        assert!(interrupted > handler, "{names:?}");
    }
}
