//! The captures that patterns name.

use std::path::PathBuf;

use gpumem_analyzer::ranks;

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("{pattern}: not a pattern of file names: {source}")]
pub struct BadPattern {
    pattern: String,
    source: glob::PatternError,
}

/// Files, folders, or patterns of such.
#[derive(Clone, Debug)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// Takes them.
    ///
    /// # Errors
    /// Where one is no pattern.
    pub fn new(patterns: &[String]) -> Result<Self, BadPattern> {
        for pattern in patterns {
            if let Err(source) = glob::Pattern::new(pattern) {
                let pattern = pattern.clone();
                return Err(BadPattern { pattern, source });
            }
        }
        Ok(Self(patterns.to_vec()))
    }

    /// What there is now: captures, and what could not be looked into.
    pub fn find(&self) -> (Vec<PathBuf>, Vec<String>) {
        let named = self.0.iter().filter_map(|of| glob::glob(of).ok()).flatten();
        let named: Vec<PathBuf> = named.flatten().collect();
        let found = ranks::find(&named);
        (found.captures, found.unreadable)
    }
}
