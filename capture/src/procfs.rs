//! Facts about processes from /proc: the two that distinguish a process from a later one with the same id, and the
//! owner of this process.

/// Field 22 of a `/proc/<pid>/stat`: when the process started, in clock ticks since boot.
pub(crate) fn start_ticks(stat: &str) -> Option<u64> {
    // The command's name, in parentheses, may itself contain spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The host's boot id, as 16 bytes; zeros if unknown.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&hex, 16).unwrap_or(0).to_be_bytes()
}

/// Whether a `/proc/<pid>/stat` belongs to a process that has ended and that its parent has not waited for. If only the
/// main thread has ended, the state is the same, but there are other threads: field 20.
fn has_ended(stat: &str) -> bool {
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next();
    let threads = fields.nth(16).and_then(|count| count.parse::<u64>().ok());
    match state {
        Some("X") => true,
        Some("Z") => threads.is_none_or(|count| count <= 1),
        _ => false,
    }
}

/// Whether a process with this id and start time exists and has not ended.
pub(crate) fn is_running(pid: u32, ticks: u64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| start_ticks(&stat) == Some(ticks) && !has_ended(&stat))
}

/// Whether a process has mapped a file whose name contains `name`. None if its mappings cannot be listed.
pub(crate) fn has_mapped(pid: u32, name: &[u8]) -> Option<bool> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let has = |line: &[u8]| line.windows(name.len()).any(|part| part == name);
    (!maps.is_empty()).then(|| maps.split(|byte| *byte == b'\n').any(has))
}

/// The effective user id of this process.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21";
        assert_eq!(start_ticks(stat), Some(4242));
        assert_eq!(start_ticks("nonsense"), None);
    }

    #[test]
    fn a_zombie_has_ended_and_threads_without_their_main_thread_have_not() {
        let of = |state, threads| {
            let stat =
                format!("7 (a Z) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 0 42 0");
            (start_ticks(&stat), has_ended(&stat))
        };
        assert_eq!(of("Z", 1), (Some(42), true));
        assert_eq!(of("X", 0), (Some(42), true));
        for (state, threads) in [("Z", 2), ("S", 1), ("R", 3), ("T", 1), ("D", 1)] {
            assert_eq!(of(state, threads), (Some(42), false), "{state} {threads}");
        }
    }

    #[test]
    fn a_child_that_nobody_has_waited_for_has_ended() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id();
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let ticks = start_ticks(&stat()).unwrap();
        assert!(is_running(pid, ticks) && !is_running(pid, ticks + 1));
        child.kill().unwrap();
        while !has_ended(&stat()) {
            std::thread::yield_now();
        }
        assert!(!is_running(pid, ticks));
        child.wait().unwrap();
    }

    #[test]
    fn mappings_are_listed_by_name() {
        let own = std::process::id();
        assert_eq!(has_mapped(own, b"/libc.so."), Some(true));
        assert_eq!(has_mapped(own, b"/no such library"), Some(false));
        assert_eq!(has_mapped(u32::MAX, b"/libc.so."), None);
    }

    #[test]
    fn our_own_start_is_known() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(start_ticks(&stat).unwrap() > 0);
        assert_ne!(boot_id(), [0; 16]);
    }
}
