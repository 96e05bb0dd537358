//! This process among those that NVML lists.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

use gpumem_capture::DeviceOrdinal;
use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use super::library;
use super::state::{Before, CARD, Listed};

/// Every process on a device; `None` if NVML does not report them.
pub(super) fn list(device: &Device<'_>) -> Option<Vec<Listed>> {
    let lib = device.nvml().lib();
    // SAFETY: the handle is used while the library is open, which is never closed.
    let handle = unsafe { device.handle() };
    let compute = first_that_is_there(
        || ask(lib.nvmlDeviceGetComputeRunningProcesses_v3.as_ref(), handle),
        || ask(lib.nvmlDeviceGetComputeRunningProcesses_v2.as_ref(), handle),
    )?;
    // A process that uses graphics is listed there with the same figure, so it must not count twice.
    let graphics = first_that_is_there(
        || {
            let function = lib.nvmlDeviceGetGraphicsRunningProcesses_v3.as_ref();
            ask(function, handle)
        },
        || {
            let function = lib.nvmlDeviceGetGraphicsRunningProcesses_v2.as_ref();
            ask(function, handle)
        },
    );
    let mut all: Vec<Listed> = Vec::with_capacity(compute.len());
    for process in compute.iter().chain(graphics.iter().flatten()) {
        add(&mut all, listed(process));
    }
    Some(all)
}

/// An NVML function that fills a list of processes, in all of its forms.
type Function<D, I> = unsafe extern "C" fn(D, *mut u32, *mut I) -> u32;

/// The result of such a function.
enum Answer {
    List(Vec<ProcessInfo>),
    /// The library does not have it.
    Missing,
    Failed,
}

/// The initial room of a list, in processes.
const ROOM: u32 = 64;
/// The maximum room of a list.
const MOST_ROOM: u32 = 1 << 16;

/// Queries with room for a list that grows: one call where nvml-wrapper needs two, each only while the library may
/// be used.
fn ask<D: Copy, I: Copy, E>(function: Result<&Function<D, I>, &E>, device: D) -> Answer
where
    ProcessInfo: From<I>,
{
    const NO_ROOM: u32 = 7;
    const NOT_FOUND: u32 = 13;
    let Ok(function) = function else {
        return Answer::Missing;
    };
    let mut room = ROOM;
    while room <= MOST_ROOM && library::opened().is_some() {
        let mut count = room;
        let mut list: Vec<MaybeUninit<I>> = vec![MaybeUninit::zeroed(); room as usize];
        // SAFETY: the handle is NVML's own, and the list has room for `count` of what the function fills in.
        match unsafe { function(device, &raw mut count, list.as_mut_ptr().cast::<I>()) } {
            0 => {
                let filled = list.into_iter().take(count.min(room) as usize);
                // SAFETY: NVML has filled that many of them in, whose fields are plain integers.
                let filled = filled.map(|one| ProcessInfo::from(unsafe { one.assume_init() }));
                return Answer::List(filled.collect());
            }
            NO_ROOM => room = count.max(room).saturating_mul(2),
            NOT_FOUND => return Answer::Missing,
            _ => return Answer::Failed,
        }
    }
    Answer::Failed
}

/// The result of the newest form of a function that the library has.
fn first_that_is_there(
    new: impl FnOnce() -> Answer,
    old: impl FnOnce() -> Answer,
) -> Option<Vec<ProcessInfo>> {
    let answer = match new() {
        Answer::Missing => old(),
        answer => answer,
    };
    match answer {
        Answer::List(list) => Some(list),
        Answer::Missing | Answer::Failed => None,
    }
}

fn listed(process: &ProcessInfo) -> Listed {
    Listed {
        pid: process.pid,
        bytes: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
    }
}

/// Adds a process that may be in the list already.
fn add(all: &mut Vec<Listed>, one: Listed) {
    match all.iter_mut().find(|known| known.pid == one.pid) {
        Some(known) => known.bytes = known.bytes.max(one.bytes),
        None => all.push(one),
    }
}

/// The figures of a list: this process's, and the sum of all others; `None` if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) mine: Option<u64>,
    pub(crate) others: Option<u64>,
}

/// Separates this process's figure from the others'. A process that was listed once and no longer is uses nothing.
pub(super) fn figures(list: &[Listed], me: Option<u32>) -> Figures {
    let Some(me) = me else {
        return Figures {
            mine: None,
            others: None,
        };
    };
    let mine = list.iter().find(|one| one.pid == me);
    let others = list.iter().filter(|one| one.pid != me);
    Figures {
        mine: mine.map_or(Some(0), |one| one.bytes),
        others: others.map(|one| one.bytes).sum(),
    }
}

/// The process id of this process in NVML, if it was found.
pub(super) fn me() -> Option<u32> {
    Some(CARD.me.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
}

/// Keeps the state of a device before this process's first context there.
pub(super) fn keep_before(
    device: DeviceOrdinal,
    list: Option<&[Listed]>,
    used: u64,
    explained: u64,
) {
    let mut all = CARD.before.lock();
    all.entry(device.0).or_insert_with(|| Before {
        list: list.map(<[Listed]>::to_vec),
        used: (used, explained),
    });
}

/// The used bytes of a device before this process's first context there, and the physical level's live bytes.
pub(crate) fn used_before_first(device: DeviceOrdinal) -> Option<(u64, u64)> {
    let all = CARD.before.lock();
    all.get(&device.0).map(|before| before.used)
}

/// The ids of this process, here and in outer pid namespaces. Read once, because a file that is open for a short
/// time, on another thread, would take a descriptor number that the program expects to be free.
fn own_pids() -> &'static [u32] {
    CARD.own_pids.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut own = vec![std::process::id()];
        own.extend(outer_pids(&status));
        own
    })
}

/// Finds this process in the list of a device on which it has a context.
pub(super) fn identify(device: DeviceOrdinal, now: &[Listed]) -> Option<u32> {
    me().or_else(|| {
        let before = CARD.before.lock().get(&device.0).cloned();
        let listed = before.as_ref().and_then(|before| before.list.as_deref());
        let found = find(own_pids(), listed, now)?;
        CARD.me.store(found, Ordering::Relaxed);
        Some(found)
    })
}

/// The id of this process in a list: one of its `own` ids that was not there `before`, or else the only id that
/// was not.
fn find(own: &[u32], before: Option<&[Listed]>, now: &[Listed]) -> Option<u32> {
    // NVML may use another namespace, where our id belongs to another process.
    let was_there = |pid: u32| before.is_some_and(|list| list.iter().any(|known| known.pid == pid));
    let is_there = |pid: u32| now.iter().any(|known| known.pid == pid);
    let by_number = own
        .iter()
        .copied()
        .find(|&pid| is_there(pid) && !was_there(pid));
    by_number.or_else(|| {
        before?;
        let mut new = now.iter().filter(|one| !was_there(one.pid));
        let only = new.next()?;
        new.next().is_none().then_some(only.pid)
    })
}

/// This process's ids in its pid namespaces, from the outermost that `/proc` shows.
fn outer_pids(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers = line.unwrap_or_default().split_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(all: &[(u32, u64)]) -> Vec<Listed> {
        let one = |(pid, bytes): &(u32, u64)| Listed {
            pid: *pid,
            bytes: Some(*bytes),
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn namespaces_are_read_from_the_outermost() {
        let status = "Name:\tpython\nNgid:\t0\nPid:\t12\nNSpid:\t40312\t12\nNSpgid:\t40312\t12\n";
        assert_eq!(outer_pids(status), [40312, 12]);
        assert_eq!(outer_pids("Name:\tpython\nPid:\t12\n"), []);
    }

    #[test]
    fn a_process_is_known_by_its_number() {
        let now = listed(&[(1, 10), (42, 30)]);
        assert_eq!(find(&[42], None, &now), Some(42));
        assert_eq!(find(&[7, 42], Some(&listed(&[(1, 10)])), &now), Some(42));
        assert_eq!(find(&[7], None, &now), None);
    }

    #[test]
    fn a_number_that_was_there_before_is_somebody_elses() {
        let before = listed(&[(1, 10), (42, 5)]);
        let now = listed(&[(1, 10), (42, 5), (9000, 30)]);
        assert_eq!(find(&[42], Some(&before), &now), Some(9000));
    }

    #[test]
    fn of_two_newcomers_neither_is_taken_for_this_process() {
        let now = listed(&[(8, 10), (9, 30)]);
        assert_eq!(find(&[42], Some(&[]), &now), None);
        assert_eq!(find(&[42], Some(&listed(&[(8, 10)])), &now), Some(9));
        assert_eq!(find(&[42], Some(&now), &now), None);
    }

    #[test]
    fn figures_that_are_not_told_are_unknown() {
        let mut list = listed(&[(1, 10), (2, 20), (42, 30)]);
        let known = Figures {
            mine: Some(30),
            others: Some(30),
        };
        assert_eq!(figures(&list, Some(42)), known);
        assert_eq!(figures(&list, Some(43)).mine, Some(0));
        assert_eq!(figures(&list, None).mine, None);
        assert_eq!(figures(&list, None).others, None);
        list.push(Listed {
            pid: 3,
            bytes: None,
        });
        assert_eq!(figures(&list, Some(42)).others, None);
        assert_eq!(figures(&list, Some(42)).mine, Some(30));
        assert_eq!(figures(&list, Some(3)).mine, None);
    }

    #[test]
    fn a_process_that_also_draws_counts_once() {
        let mut all = listed(&[(42, 30)]);
        add(
            &mut all,
            Listed {
                pid: 42,
                bytes: Some(30),
            },
        );
        assert_eq!(all, listed(&[(42, 30)]));
    }
}
