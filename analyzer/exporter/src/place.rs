//! The pod, container and Slurm job of a process, from /proc.

use std::path::PathBuf;

/// The pod, container and job of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Name of the pod: `POD_NAME` in the program's environment.
    pub pod: String,
    /// Its namespace: `POD_NAMESPACE`.
    pub namespace: String,
    /// Its container's name: `CONTAINER_NAME`.
    pub container: String,
    /// The pod's UID, from the process's cgroup.
    pub pod_uid: String,
    /// The id of the Slurm job.
    pub slurm_job_id: String,
}

impl Place {
    /// Reads them for a process that runs on this machine, and from the names of its job. Unreadable values stay empty.
    pub fn of(pid: Option<u32>, job: Option<&str>) -> Self {
        let read = |name: &str| {
            let path = pid.map(|pid| PathBuf::from(format!("/proc/{pid}/{name}")))?;
            gpumem_files::read::whole(&path).ok()
        };
        let environment = read("environ").unwrap_or_default();
        let cgroup = read("cgroup").unwrap_or_default();
        Self::by(&environment, &String::from_utf8_lossy(&cgroup), job)
    }

    fn by(environment: &[u8], cgroup: &str, job: Option<&str>) -> Self {
        let value = |name: &str| {
            let mut pairs = environment.split(|byte| *byte == 0);
            let found = pairs.find_map(|pair| {
                let pair = std::str::from_utf8(pair).ok()?;
                pair.strip_prefix(name)?.strip_prefix('=')
            });
            found.unwrap_or_default().to_owned()
        };
        let names = job.unwrap_or_default().split_whitespace();
        let mut slurm = names.filter_map(|name| name.strip_prefix("slurm:"));
        let step = slurm.next().and_then(|job| job.split('.').next());
        Self {
            pod: value("POD_NAME"),
            namespace: value("POD_NAMESPACE"),
            container: value("CONTAINER_NAME"),
            pod_uid: pod_uid(cgroup).unwrap_or_default(),
            slurm_job_id: step.map_or_else(|| value("SLURM_JOB_ID"), str::to_owned),
        }
    }
}

/// `…/kubepods/burstable/pod<UID>/…`, or systemd's `kubepods-burstable-pod<UID with _>.slice`.
fn pod_uid(cgroup: &str) -> Option<String> {
    let parts = cgroup.split(['/', '\n']).filter(|part| part.len() >= 39);
    let mut uids = parts.filter_map(|part| {
        let name = part.strip_suffix(".slice").unwrap_or(part);
        let uid = name.get(name.len().checked_sub(36)?..)?.replace('_', "-");
        let before = name.get(..name.len() - 36)?;
        let is_uid = uid.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
        (before.ends_with("pod") && is_uid).then_some(uid)
    });
    uids.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_known_by_cgroup_and_environment() {
        let uid = "0a1b2c3d-0000-1111-2222-333344445555";
        for cgroup in [
            format!("0::/kubepods/burstable/pod{uid}/abc\n"),
            format!(
                "0::/kubepods.slice/kubepods-pod{}.slice/cri-abc.scope\n",
                uid.replace('-', "_")
            ),
        ] {
            let place = Place::by(b"A=1\0POD_NAME=train-0\0POD_NAMESPACE=ml\0", &cgroup, None);
            assert_eq!((&*place.pod, &*place.namespace), ("train-0", "ml"));
            assert_eq!(place.pod_uid, uid);
        }
    }

    #[test]
    fn a_slurm_job_is_known_by_the_capture() {
        let of = |job| Place::by(b"SLURM_JOB_ID=7\0", "0::/\n", job).slurm_job_id;
        assert_eq!(of(Some("torchrun:x slurm:4711.0")), "4711");
        assert_eq!(of(None), "7");
    }
}
