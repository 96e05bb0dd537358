//! A bucket of S3, Google Cloud Storage or Azure, through the crate `object_store`. Its asynchronous calls are made
//! blocking here.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::path::Path as FilePath;
use std::str::FromStr;
use std::sync::Once;
use std::time::{Duration, Instant};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, Error, MultipartUpload, ObjectStore, ObjectStoreExt as _,
    PutMode, PutPayload, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};

use super::error::StoreError;
use super::found::{Created, Found};
use super::patience::Patience;

/// Larger files are uploaded and downloaded in chunks of this size.
const PIECE: u64 = 8 << 20;
pub struct Remote {
    store: Box<dyn ObjectStore>,
    runtime: Runtime,
    /// `s3://bucket`.
    bucket: String,
    prefix: String,
    retry: Duration,
    variables: &'static str,
}

const SCHEMES: [(&str, &str); 3] = [
    ("s3://", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ("gs://", "GOOGLE_SERVICE_ACCOUNT, the path of a key file"),
    (
        "az://",
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    ),
];

impl Remote {
    pub fn is_one(place: &str) -> bool {
        SCHEMES.iter().any(|(scheme, _)| place.starts_with(scheme))
    }

    /// `None` if the place is a folder.
    pub fn open(place: &str, patience: Patience) -> Option<Result<Self, StoreError>> {
        let (scheme, variables) = SCHEMES
            .iter()
            .find(|(scheme, _)| place.starts_with(scheme))?;
        let rest = place.strip_prefix(scheme)?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let other = |said: String| StoreError::Other {
            place: place.to_owned(),
            said,
        };
        if name.is_empty() {
            return Some(Err(other(format!("name a bucket: {scheme}bucket/folder"))));
        }
        let made = store(scheme, name, patience).map_err(|error| other(one_line(&error)));
        Some(made.and_then(|store| {
            let runtime = Builder::new_current_thread().enable_all().build();
            Ok(Self {
                store,
                runtime: runtime.map_err(|error| StoreError::io(place, error))?,
                bucket: format!("{scheme}{name}"),
                prefix: match prefix.trim_matches('/') {
                    "" => String::new(),
                    prefix => format!("{prefix}/"),
                },
                retry: patience.retry,
                variables,
            })
        }))
    }

    /// Uses another store than those of the network.
    #[cfg(test)]
    pub fn over(store: Box<dyn ObjectStore>, bucket: &str, prefix: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        Self {
            store,
            runtime: runtime.expect("a runtime"),
            bucket: bucket.into(),
            prefix: prefix.into(),
            retry: Duration::ZERO,
            variables: "",
        }
    }

    fn path(&self, path: &str) -> Result<Path, StoreError> {
        Path::parse(format!("{}{path}", self.prefix)).map_err(|error| StoreError::Other {
            place: self.name(path),
            said: error.to_string(),
        })
    }

    fn name(&self, path: &str) -> String {
        format!("{}/{}{path}", self.bucket, self.prefix)
    }

    /// Retries while the store's response may change, until the time limit.
    fn again<T>(
        &self,
        path: &str,
        doing: &'static str,
        mut attempt: impl FnMut(&Path) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let (place, until) = (self.path(path)?, Instant::now() + self.retry);
        loop {
            match attempt(&place) {
                Ok(done) => return Ok(done),
                Err(error) if may_pass(&error) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(error) => return Err(self.explained(path, doing, &error)),
            }
        }
    }

    pub fn list(&self, prefix: &str) -> Result<Vec<Found>, StoreError> {
        let below = prefix.trim_end_matches('/');
        let objects = self.again(below, "list it", |place| {
            self.runtime.block_on(async {
                let mut pages = self.store.list(Some(place));
                let mut objects = Vec::new();
                while let Some(object) = next(&mut pages).await {
                    objects.push(object?);
                }
                Ok(objects)
            })
        })?;
        let own = self.path("")?.to_string();
        Ok(objects
            .into_iter()
            .filter_map(|object| {
                let path = object.location.to_string();
                let path = path.strip_prefix(&own)?.trim_start_matches('/').to_owned();
                (!path.is_empty()).then(|| Found {
                    path,
                    bytes: object.size,
                    modified: object.last_modified.into(),
                })
            })
            .collect())
    }

    pub fn get(&self, path: &str) -> Result<Vec<u8>, StoreError> {
        self.again(path, "read it", |place| {
            self.runtime
                .block_on(async { self.store.get(place).await?.bytes().await })
        })
        .map(Into::into)
    }

    pub fn get_range(&self, path: &str, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        self.again(path, "read it", |place| {
            self.runtime
                .block_on(self.store.get_range(place, range.clone()))
        })
        .map(Into::into)
    }

    pub fn download(&self, found: &Found, to: &FilePath) -> Result<(), StoreError> {
        let refused = |error| StoreError::io(to.display(), error);
        let mut file = File::create(to).map_err(refused)?;
        let mut from = 0;
        while from < found.bytes {
            let until = from.saturating_add(PIECE).min(found.bytes);
            let piece = self.get_range(&found.path, from..until)?;
            file.write_all(&piece).map_err(refused)?;
            from = until;
        }
        Ok(())
    }

    pub fn put(&self, path: &str, contents: &[u8]) -> Result<(), StoreError> {
        if contents.len() as u64 > PIECE {
            return self.put_pieces(
                path,
                &mut contents.chunks(PIECE as usize).map(|c| Ok(c.to_vec())),
            );
        }
        let payload = PutPayload::from(contents.to_vec());
        self.again(path, "write it", |place| {
            self.runtime
                .block_on(self.store.put(place, payload.clone()))
        })
        .map(|_| ())
    }

    pub fn put_file(&self, path: &str, from: &FilePath) -> Result<(), StoreError> {
        let refused = |error| StoreError::io(from.display(), error);
        let mut file = File::open(from).map_err(refused)?;
        if file.metadata().map_err(refused)?.len() <= PIECE {
            let mut contents = Vec::new();
            file.read_to_end(&mut contents).map_err(refused)?;
            return self.put(path, &contents);
        }
        let mut pieces = std::iter::from_fn(|| {
            let mut piece = Vec::new();
            match (&mut file).take(PIECE).read_to_end(&mut piece) {
                Ok(0) => None,
                Ok(_) => Some(Ok(piece)),
                Err(error) => Some(Err(refused(error))),
            }
        });
        self.put_pieces(path, &mut pieces)
    }

    /// An upload of several chunks, aborted on failure.
    pub(super) fn put_pieces(
        &self,
        path: &str,
        pieces: &mut dyn Iterator<Item = Result<Vec<u8>, StoreError>>,
    ) -> Result<(), StoreError> {
        let mut upload = self.again(path, "write it", |place| {
            self.runtime.block_on(self.store.put_multipart(place))
        })?;
        let done = self.pieces(path, upload.as_mut(), pieces);
        if done.is_err() {
            let _ = self.runtime.block_on(upload.abort());
        }
        done
    }

    fn pieces(
        &self,
        path: &str,
        upload: &mut dyn MultipartUpload,
        pieces: &mut dyn Iterator<Item = Result<Vec<u8>, StoreError>>,
    ) -> Result<(), StoreError> {
        let refused = |error| self.explained(path, "write it", &error);
        for piece in pieces {
            let part = upload.put_part(piece?.into());
            self.runtime.block_on(part).map_err(refused)?;
        }
        self.runtime.block_on(upload.complete()).map_err(refused)?;
        Ok(())
    }

    /// If the response was lost, it is unknown who created the file, so its contents are compared.
    pub fn create(&self, path: &str, contents: &[u8]) -> Result<Created, StoreError> {
        let payload = PutPayload::from(contents.to_vec());
        let created = self.again(path, "write it", |place| {
            let put = self
                .store
                .put_opts(place, payload.clone(), PutMode::Create.into());
            match self.runtime.block_on(put) {
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                    let there = async { self.store.get(place).await?.bytes().await };
                    Ok(self.runtime.block_on(there)? == contents)
                }
                done => done.map(|_| true),
            }
        })?;
        Ok(if created {
            Created::New
        } else {
            Created::Exists
        })
    }

    pub fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.again(path, "delete it", |place| {
            match self.runtime.block_on(self.store.delete(place)) {
                Err(Error::NotFound { .. }) => Ok(()),
                done => done,
            }
        })
    }

    fn explained(&self, path: &str, doing: &'static str, error: &Error) -> StoreError {
        let (place, said) = (self.name(path), one_line(error));
        let credentials = |fault| StoreError::Credentials {
            place: self.bucket.clone(),
            fault,
            variables: self.variables,
        };
        let names = |codes: &[&str]| codes.iter().any(|code| said.contains(code));
        if names(&[
            "NoSuchBucket",
            "ContainerNotFound",
            "specified bucket does not exist",
        ]) {
            StoreError::NoBucket(self.bucket.clone())
        } else if names(&[
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "InvalidToken",
            "ExpiredToken",
            "failed to authenticate the request",
        ]) {
            credentials("wrong")
        } else if names(&["169.254.169.254", "metadata.google.internal"]) {
            credentials("missing")
        } else {
            match error {
                Error::NotFound { .. } => StoreError::NotFound(place),
                Error::Unauthenticated { .. } => credentials("wrong"),
                Error::PermissionDenied { .. } => StoreError::Permission(place, doing),
                error if may_pass(error) => StoreError::Unreachable { place, said },
                _ => StoreError::Other { place, said },
            }
        }
    }
}

/// Whether another attempt may give another result.
fn may_pass(error: &Error) -> bool {
    let Error::Generic { .. } = error else {
        return false;
    };
    let said = error.to_string();
    let is_final = |code: &str| {
        said.contains(&format!("status code: {code}"))
            && !said.contains("status code: 429")
            && !said.contains("status code: 408")
    };
    !is_final("4") && !is_final("3")
}

/// The next item of a stream.
async fn next<T>(stream: &mut (impl futures_core::Stream<Item = T> + Unpin)) -> Option<T> {
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_next(context)).await
}

fn one_line(error: &Error) -> String {
    let said = error.to_string();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn store(scheme: &str, name: &str, patience: Patience) -> Result<Box<dyn ObjectStore>, Error> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // An error means that the process has a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: usize::MAX,
        retry_timeout: patience.retry,
    };
    let request = format!("{} seconds", patience.request.as_secs());
    let timeout = ClientConfigKey::from_str("timeout")?;
    Ok(match scheme {
        "s3://" => Box::new(
            AmazonS3Builder::from_env()
                .with_bucket_name(name)
                .with_config(AmazonS3ConfigKey::Client(timeout), request)
                .with_retry(retry)
                .build()?,
        ),
        "gs://" => Box::new(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(name)
                .with_config(GoogleConfigKey::Client(timeout), request)
                .with_retry(retry)
                .build()?,
        ),
        _ => Box::new(
            MicrosoftAzureBuilder::from_env()
                .with_container_name(name)
                .with_config(AzureConfigKey::Client(timeout), request)
                .with_retry(retry)
                .build()?,
        ),
    })
}
