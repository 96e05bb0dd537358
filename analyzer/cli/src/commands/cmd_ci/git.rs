//! The commit that is measured, and its time.

use std::process::Command;

use super::super::budgets::quantities;

/// A commit: its hash, and seconds since 1970-01-01 UTC.
pub struct Commit {
    /// Its hash.
    pub hash: String,
    /// Its time.
    pub seconds: i64,
}

/// The given commit, or git's HEAD; its time as given, or from git.
pub fn commit(hash: Option<&str>, date: Option<i64>) -> anyhow::Result<Commit> {
    let hash = match hash {
        Some(hash) => hash.to_owned(),
        None => git(&["rev-parse", "HEAD"]).ok_or_else(|| {
            anyhow::anyhow!(
                "git reports no commit for this folder: name the measured commit with --commit SHA"
            )
        })?,
    };
    let seconds = date.or_else(|| {
        let said = git(&["show", "--no-patch", "--format=%ct", &hash])?;
        said.parse().ok()
    });
    let seconds = seconds.ok_or_else(|| {
        anyhow::anyhow!(
            "git does not know commit {hash}: set its time with --date 2026-12-31T10:00:00Z"
        )
    })?;
    Ok(Commit { hash, seconds })
}

/// Reads a commit's hash.
pub fn hash(text: &str) -> Result<String, String> {
    let is_hash =
        (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_hash {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("expected a commit hash, as printed by git rev-parse HEAD".into()),
    }
}

/// Reads a commit's time.
pub fn date(text: &str) -> Result<i64, String> {
    quantities::seconds(text)
}

/// Git's output; `None` without git, or if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let done = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(done.stdout).ok()?;
    let said = said.trim().to_owned();
    Some(said).filter(|said| done.status.success() && !said.is_empty())
}
