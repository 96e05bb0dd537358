//! What the system says of processes: the two facts of /proc that tell a process from a later one with the same id,
//! and whose this one is.

/// Field 22 of a `/proc/<pid>/stat`: when the process started, in clock ticks since boot.
pub(crate) fn start_ticks(stat: &str) -> Option<u64> {
    // The command's name, in brackets, may hold blanks and brackets of its own.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The host's boot id, as 16 bytes; zeros if unknown.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&hex, 16).unwrap_or(0).to_be_bytes()
}

/// Whether a process with this id that was started then is there.
pub(crate) fn is_running(pid: u32, ticks: u64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| start_ticks(&stat))
        .is_some_and(|found| found == ticks)
}

/// The user for whom this process acts.
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
    fn our_own_start_is_known() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(start_ticks(&stat).unwrap() > 0);
        assert_ne!(boot_id(), [0; 16]);
    }
}
