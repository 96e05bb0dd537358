//! A line of code as JSON carries it.

use serde::Serialize;

use crate::attribution::Owner;

/// Where in the code; all `None` where no Python line is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// File as the interpreter has it.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u32>,
    /// Function.
    pub function: Option<String>,
}

impl Place {
    /// An owner's line.
    pub fn of(owner: Option<&Owner>) -> Self {
        match owner {
            Some(Owner::Line(line)) => Self {
                file: Some(line.file.clone()),
                line: Some(line.line),
                function: Some(line.function.clone()),
            },
            _ => Self::default(),
        }
    }
}
