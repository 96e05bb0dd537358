//! Labels of a capture.

use crate::captures::Now;

/// Labels that all samples of a capture have.
pub(super) struct Common {
    path: String,
    rank: String,
    pod: String,
    namespace: String,
    container: String,
    slurm_job_id: String,
}

impl Common {
    pub(super) fn of(capture: &Now) -> Self {
        let place = capture.place.clone();
        let rank = capture.frame.process.rank;
        Self {
            path: capture.path.display().to_string(),
            rank: rank.map(|rank| rank.to_string()).unwrap_or_default(),
            pod: place.pod,
            namespace: place.namespace,
            container: place.container,
            slurm_job_id: place.slurm_job_id,
        }
    }

    /// These labels and more.
    pub(super) fn with<'a>(&'a self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut labels = vec![
            ("capture", &*self.path),
            ("rank", &*self.rank),
            ("pod", &*self.pod),
            ("namespace", &*self.namespace),
            ("container", &*self.container),
            ("slurm_job_id", &*self.slurm_job_id),
        ];
        labels.extend(more);
        labels
    }
}
