//! Arguments that several commands share and that select no figures.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gpumem_analyzer::attribution::OwnPackages;
use gpumem_analyzer::render::{Colour, bytes};
use gpumem_analyzer::source::Permission;

use crate::selection::size;

/// Text for people or JSON for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned text
    #[default]
    Text,
    /// JSON with integers
    Json,
}

/// When output is coloured
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColourArg {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always, also in pipes and files
    Always,
    /// Never
    Never,
}

impl From<ColourArg> for Colour {
    fn from(colour: ColourArg) -> Self {
        match colour {
            ColourArg::Auto => Self::Auto,
            ColourArg::Always => Self::Always,
            ColourArg::Never => Self::Never,
        }
    }
}

/// The value of `--color`; it also applies to messages about a wrong command line.
pub fn colour(arguments: &[OsString]) -> Colour {
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let mut found = ColourArg::Auto;
    while let Some(word) = words.next() {
        let value = match word {
            "--" => break,
            "--color" | "--colour" => words.next(),
            _ => word
                .strip_prefix("--color=")
                .or_else(|| word.strip_prefix("--colour=")),
        };
        if let Some(value) = value.and_then(|value| ColourArg::from_str(value, false).ok()) {
            found = value;
        }
    }
    found.into()
}

/// Which lines of source are shown.
#[derive(Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// Show and store no lines of source. Also GPUMEM_NO_SOURCE
    #[arg(long, global = true)]
    pub no_source: bool,
    /// Show lines of source files below this folder, as they are now. By default, only files below the folder of the
    /// run or of its script, and only for your own captures of this machine since it was started
    #[arg(long, global = true, value_name = "DIR")]
    pub source_root: Option<PathBuf>,
}

impl SourceArgs {
    /// What they permit.
    ///
    /// # Errors
    /// The folder does not exist.
    pub fn permission(&self) -> Result<Permission, clap::Error> {
        let unwanted = std::env::var_os("GPUMEM_NO_SOURCE");
        let unwanted = unwanted.is_some_and(|value| !value.is_empty() && value != "0");
        match &self.source_root {
            Some(root) if !root.is_dir() => Err(clap::Error::raw(
                clap::error::ErrorKind::ValueValidation,
                format!("--source-root {}: no such folder", root.display()),
            )),
            root => Ok(Permission {
                none: self.no_source || (unwanted && root.is_none()),
                root: root.clone(),
            }),
        }
    }
}

/// Whose code owns memory.
#[derive(Args, Clone, Debug, Default)]
pub struct CodeArgs {
    /// Count this installed package as your code, so that its lines own memory. Can be repeated, or several separated by
    /// commas. Also GPUMEM_CODE. By default, what GPUMEM_CODE was when the program ran
    #[arg(long, global = true, value_name = "PACKAGE")]
    pub code: Vec<String>,
}

impl CodeArgs {
    /// The packages; `None`: those of each capture.
    ///
    /// # Errors
    /// A name is not that of a package.
    pub fn packages(&self) -> Result<Option<OwnPackages>, clap::Error> {
        let variable = std::env::var("GPUMEM_CODE").ok();
        let (from, names) = match (&self.code[..], variable) {
            ([], None) => return Ok(None),
            ([], Some(names)) => ("GPUMEM_CODE=", names),
            (names, _) => ("--code ", names.join(",")),
        };
        let packages = OwnPackages::parse(&names);
        packages.map(Some).ok_or_else(|| {
            clap::Error::raw(
                clap::error::ErrorKind::ValueValidation,
                format!("{from}{names}: expected names of packages as they are imported: timm,mypackage.models"),
            )
        })
    }
}

/// A budget of memory, such as `8GiB`.
pub fn budget(text: &str) -> Result<u64, String> {
    let size = size(text).filter(|bytes| *bytes > 0);
    size.ok_or_else(|| "expected a size: 512MiB, 8GiB".into())
}

/// Sets how much memory this process may use.
pub fn set_budget(most: Option<u64>) {
    if let Some(most) = most.or_else(gpumem_budget::half_of_free) {
        let words = format!(
            "gpumem-analyze: this needs more than {} of memory: --max-memory allows more\n",
            bytes(most)
        );
        gpumem_budget::set(most, words);
    }
}

/// Where names of native functions are searched for. A file is used only if it has the recorded build id.
#[derive(Args, Clone, Debug, Default)]
pub struct SymbolArgs {
    /// Search for separate debug files in this folder, such as /usr/lib/debug. Can be repeated. Also GPUMEM_DEBUG_DIR
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
    /// Search for libraries and debug files in this folder, under any file names, for example copies from another
    /// machine. Can be repeated
    #[arg(long, value_name = "DIR")]
    pub symbols: Vec<PathBuf>,
    /// Search for recorded paths below this folder instead of this machine's root
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}
