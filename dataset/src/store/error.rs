//! What can go wrong with a store, each in one line with what to do.

use std::io;

/// A store's refusal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such file.
    #[error("{0}: no such file")]
    NotFound(String),
    /// There is no such bucket.
    #[error("{0}: there is no such bucket: create it, or correct its name{region}", region = region(.0))]
    NoBucket(String),
    /// The credentials are missing or wrong.
    #[error("{place}: the credentials are {fault}: set {variables}")]
    Credentials {
        /// Where.
        place: String,
        /// What is wrong with them.
        fault: &'static str,
        /// What to set.
        variables: &'static str,
    },
    /// The credentials do not permit it.
    #[error("{0}: no permission: these credentials may not {1}")]
    Permission(String, &'static str),
    /// A folder's or file's error.
    #[error("{place}: {error}{advice}")]
    Io {
        /// Where.
        place: String,
        /// What the system says.
        error: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The store did not answer, or only refused for the moment.
    #[error("{place}: the store did not answer in time: {said}")]
    Unreachable {
        /// Where.
        place: String,
        /// What it said last.
        said: String,
    },
    /// What else it says.
    #[error("{place}: {said}")]
    Other {
        /// Where.
        place: String,
        /// What it said.
        said: String,
    },
}

fn region(bucket: &str) -> &'static str {
    match bucket.starts_with("s3://") {
        true => " or AWS_REGION",
        false => "",
    }
}

impl StoreError {
    /// The system's error at a place.
    pub fn io(place: impl ToString, error: io::Error) -> Self {
        let place = place.to_string();
        let advice = match error.kind() {
            io::ErrorKind::NotFound => return Self::NotFound(place),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ": what was written whole is kept; make room and run it again"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ": run it as a user who may write there"
            }
            io::ErrorKind::Unsupported => {
                ": this file system has no hard links, by which a dataset is protected: name a folder of another"
            }
            _ => "",
        };
        Self::Io {
            place,
            error,
            advice,
        }
    }

    /// Whether it says that there is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}
