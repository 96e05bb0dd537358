//! Errors of a store, each with one line on what to do.

use std::io;

/// An error of a store.
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
        /// The place.
        place: String,
        /// The fault.
        fault: &'static str,
        /// The variables to set.
        variables: &'static str,
    },
    /// The credentials lack the permission.
    #[error("{0}: no permission: these credentials may not {1}")]
    Permission(String, &'static str),
    /// An error of a folder or file.
    #[error("{place}: {error}{advice}")]
    Io {
        /// The place.
        place: String,
        /// The system's error.
        error: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The store did not respond, or refused only temporarily.
    #[error("{place}: the store did not answer in time: {said}")]
    Unreachable {
        /// The place.
        place: String,
        /// Its last response.
        said: String,
    },
    /// Any other error.
    #[error("{place}: {said}")]
    Other {
        /// The place.
        place: String,
        /// Its response.
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

    /// Whether the error is that the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}
