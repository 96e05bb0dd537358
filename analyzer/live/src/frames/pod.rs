//! The pod, container and Slurm job of a process, from /proc.

use std::path::PathBuf;

/// The pod, container and job of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Name of the pod: `POD_NAME` in the program's environment.
    pub pod: String,
    /// Its namespace: `POD_NAMESPACE`.
    pub namespace: String,
    /// Its container's name: `CONTAINER_NAME`.
    pub container: String,
    /// The pod's UID, from the process's cgroup.
    pub pod_uid: String,
    /// The id of the Slurm job: `SLURM_JOB_ID`.
    slurm_job_id: String,
}

impl Pod {
    /// Reads them for a process that runs on this machine. Unreadable values stay empty.
    pub fn of(pid: Option<u32>) -> Self {
        let read = |name: &str| {
            let path = pid.map(|pid| PathBuf::from(format!("/proc/{pid}/{name}")))?;
            gpumem_files::read::whole(&path).ok()
        };
        let environment = read("environ").unwrap_or_default();
        let cgroup = read("cgroup").unwrap_or_default();
        Self::by(&environment, &String::from_utf8_lossy(&cgroup))
    }

    fn by(environment: &[u8], cgroup: &str) -> Self {
        let value = |name: &str| {
            let mut pairs = environment.split(|byte| *byte == 0);
            let found = pairs.find_map(|pair| {
                let pair = std::str::from_utf8(pair).ok()?;
                pair.strip_prefix(name)?.strip_prefix('=')
            });
            found.unwrap_or_default().to_owned()
        };
        Self {
            pod: value("POD_NAME"),
            namespace: value("POD_NAMESPACE"),
            container: value("CONTAINER_NAME"),
            pod_uid: pod_uid(cgroup).unwrap_or_default(),
            slurm_job_id: value("SLURM_JOB_ID"),
        }
    }

    /// The id of the Slurm job in the names of a job, else that of the environment.
    pub fn slurm_job_id<'a>(&'a self, job: Option<&'a str>) -> &'a str {
        let names = job.unwrap_or_default().split_whitespace();
        let mut slurm = names.filter_map(|name| name.strip_prefix("slurm:"));
        let step = slurm.next().and_then(|job| job.split('.').next());
        step.unwrap_or(&self.slurm_job_id)
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
            let place = Pod::by(b"A=1\0POD_NAME=train-0\0POD_NAMESPACE=ml\0", &cgroup);
            assert_eq!((&*place.pod, &*place.namespace), ("train-0", "ml"));
            assert_eq!(place.pod_uid, uid);
        }
    }

    #[test]
    fn a_slurm_job_is_known_by_the_capture() {
        let pod = Pod::by(b"SLURM_JOB_ID=7\0", "0::/\n");
        assert_eq!(pod.slurm_job_id(Some("torchrun:x slurm:4711.0")), "4711");
        assert_eq!(pod.slurm_job_id(None), "7");
    }
}
