//! How much memory is free for this process: on the machine, and in its cgroup.

use std::path::{Path, PathBuf};

use gpumem_files::read;

/// Half of the bytes that this process could still use. `None` if the system does not say.
#[must_use]
pub fn half_of_free() -> Option<u64> {
    let text = |path: &Path| read::text(path).ok();
    let machine = text(Path::new("/proc/meminfo")).and_then(|of| available(&of));
    let groups = text(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let in_groups = above(&groups).filter_map(|group| {
        let number = |name: &str| text(&group.join(name))?.trim().parse::<u64>().ok();
        Some(number("memory.max")?.saturating_sub(number("memory.current")?))
    });
    in_groups.chain(machine).min().map(|free| free / 2)
}

/// `MemAvailable` in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The folders of the process's cgroup and of those around it (version 2).
fn above(groups: &str) -> impl Iterator<Item = PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = own.map(|own| Path::new("/sys/fs/cgroup").join(own));
    let all: Vec<PathBuf> = own
        .iter()
        .flat_map(|own| own.ancestors())
        .take_while(|folder| folder.starts_with("/sys/fs/cgroup"))
        .map(Path::to_owned)
        .collect();
    all.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_that_of_the_machine_and_of_all_groups() {
        let meminfo = "MemTotal:       24612344 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(available(meminfo), Some(1 << 20));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        let folders: Vec<_> = above("1:cpu:/x\n0::/user.slice/job\n").collect();
        assert_eq!(
            folders,
            [
                "/sys/fs/cgroup/user.slice/job",
                "/sys/fs/cgroup/user.slice",
                "/sys/fs/cgroup"
            ]
            .map(PathBuf::from)
        );
        assert_eq!(above("").count(), 0);
    }
}
