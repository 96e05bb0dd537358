//! Finds the captures that patterns match.

use std::path::PathBuf;

use gpumem_analyzer::ranks;

/// An invalid pattern.
#[derive(Debug, thiserror::Error)]
#[error("{pattern}: not a pattern of file names: {source}")]
pub struct BadPattern {
    pattern: String,
    source: glob::PatternError,
}

/// Files, folders, or patterns.
#[derive(Clone, Debug)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// Checks the patterns.
    ///
    /// # Errors
    /// If a pattern is invalid.
    pub fn new(patterns: &[String]) -> Result<Self, BadPattern> {
        for pattern in patterns {
            if let Err(source) = glob::Pattern::new(pattern) {
                let pattern = pattern.clone();
                return Err(BadPattern { pattern, source });
            }
        }
        Ok(Self(patterns.to_vec()))
    }

    /// The captures found now, and the paths that could not be read.
    pub fn find(&self) -> (Vec<PathBuf>, Vec<String>) {
        let named = self.0.iter().filter_map(|of| glob::glob(of).ok()).flatten();
        let named: Vec<PathBuf> = named.flatten().collect();
        let found = ranks::find(&named);
        (found.captures, found.unreadable)
    }
}
