//! Commands, options and places that earlier versions had: each answers with one line that names the new way.

use std::path::PathBuf;

/// Any arguments.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<String>,
}

/// What does the same as the removed command.
pub fn command(name: &str, instead: &str) -> anyhow::Error {
    anyhow::anyhow!("fleet {name} was removed: {instead}")
}

/// The value of `--forget`.
pub fn forget(_: &str) -> Result<bool, String> {
    Err("removed: the next ingest adds pruned captures again if it finds them".into())
}

/// The value of the options for requests to object stores.
pub fn patience(_: &str) -> Result<u64, String> {
    Err("removed: ingest reads and writes folders only; `aws s3 sync` and `rclone` have such options".into())
}

/// A folder or file of this machine; not an address.
pub fn place(text: &str) -> Result<PathBuf, String> {
    match text.split_once("://") {
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => Err(
            "not a folder of this machine: copy captures here and the dataset there with `aws s3 sync` or `rclone copy`".into(),
        ),
        _ => Ok(text.into()),
    }
}
