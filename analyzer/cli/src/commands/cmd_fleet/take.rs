//! Arguments that select what is stored of captures.

use std::path::PathBuf;

use anyhow::Context as _;
use gpumem_analyzer::fleet::Options;
use gpumem_analyzer::source::{self, Permission};

/// What is stored of captures.
#[derive(clap::Args, Clone, Debug)]
pub struct TakeArgs {
    /// Name of the run. Default: the job's name
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Version of the code. Default: a hash of the code
    #[arg(long, value_name = "TEXT")]
    pub version: Option<String>,
    /// Add a row to the table labels, such as a team, a project or a queue. Can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Store hashes instead of the names of files, functions, modules, programs and machines, and omit the text of
    /// source lines
    #[arg(long)]
    pub hash_paths: bool,
    /// Use the content of this file as the key of the hashes, so that names cannot be guessed without it
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
    /// The same, for the library.
    ///
    /// # Errors
    /// If the secret cannot be read, or is empty.
    pub fn options(&self) -> anyhow::Result<Options> {
        let secret = self.secret.as_ref().map(|file| {
            let secret = gpumem_files::read::whole(file)
                .with_context(|| format!("cannot read the secret {}", file.display()))?;
            anyhow::ensure!(
                !secret.is_empty(),
                "{}: the secret is empty: create one with head -c 32 /dev/urandom",
                file.display()
            );
            Ok(secret)
        });
        // A key is made of a line's text, also if the text is not stored.
        let permission = source::permission();
        let source_text = !permission.none;
        source::permit(Permission {
            none: permission.none && permission.root.is_none(),
            ..permission
        });
        Ok(Options {
            run: self.run.clone(),
            version: self.version.clone(),
            labels: self.labels.clone(),
            source_text,
            hash_paths: self.hash_paths,
            secret: secret.transpose()?,
        })
    }
}
