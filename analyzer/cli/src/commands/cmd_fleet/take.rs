//! What is taken of captures, by the command line.

use std::path::PathBuf;

use anyhow::Context as _;
use gpumem_analyzer::fleet::Options;

/// What is taken of captures.
#[derive(clap::Args, Clone, Debug)]
pub struct TakeArgs {
    /// The run's name, in place of the job's
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// The version of the code, in place of a hash of it
    #[arg(long, value_name = "TEXT")]
    pub version: Option<String>,
    /// A row of the table labels: a team, a project, a queue; may be given again
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Leave the text of lines out
    #[arg(long)]
    pub no_source_text: bool,
    /// Hashes in place of the names of files, functions, modules, programs and machines; lines have no text
    #[arg(long)]
    pub hash_paths: bool,
    /// Names and keys are hashed by the contents of this file, so that nobody without it can find one out by trying
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, as team=vision".into()),
    }
}

impl TakeArgs {
    /// The same, as the library takes it.
    ///
    /// # Errors
    /// If the secret cannot be read, or is empty.
    pub fn options(&self) -> anyhow::Result<Options> {
        let secret = self.secret.as_ref().map(|file| {
            let secret = std::fs::read(file)
                .with_context(|| format!("cannot read the secret {}", file.display()))?;
            anyhow::ensure!(
                !secret.is_empty(),
                "{}: it is empty, and no secret: head -c 32 /dev/urandom makes one",
                file.display()
            );
            Ok(secret)
        });
        Ok(Options {
            run: self.run.clone(),
            version: self.version.clone(),
            labels: self.labels.clone(),
            source_text: !self.no_source_text,
            hash_paths: self.hash_paths,
            secret: secret.transpose()?,
        })
    }
}
