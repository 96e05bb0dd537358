//! A capture, and the labels that all its samples have.

use std::path::Path;
use std::sync::Arc;

use crate::frames::{Frame, Now, Pod};

/// A capture with figures.
pub(crate) struct Capture {
    pub(super) frame: Arc<Frame>,
    pub(super) pod: Pod,
    path: String,
    rank: String,
}

impl Capture {
    pub(crate) fn new(path: &Path, pod: Pod, frame: Arc<Frame>) -> Self {
        Self {
            path: path.display().to_string(),
            rank: frame
                .rank()
                .map(|rank| rank.to_string())
                .unwrap_or_default(),
            pod,
            frame,
        }
    }

    /// `None` before its first figures.
    pub(crate) fn of(now: Now) -> Option<Self> {
        let frame = now.frame?;
        Some(Self::new(&now.path, now.pod, frame))
    }

    /// The common labels and more.
    pub(super) fn with<'a>(&'a self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let job = self.frame.process.job.as_deref();
        let mut labels = vec![
            ("capture", &*self.path),
            ("rank", &*self.rank),
            ("pod", &*self.pod.pod),
            ("namespace", &*self.pod.namespace),
            ("container", &*self.pod.container),
            ("slurm_job_id", self.pod.slurm_job_id(job)),
        ];
        labels.extend(more);
        labels
    }
}
