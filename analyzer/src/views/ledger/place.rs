//! A line of code in JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::attribution::Owner;

/// A source line. All fields are `None` if no Python line is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Place {
    /// Absolute path of the source file. Code without a file has the interpreter's name, such as `<string>`. `None`:
    /// no Python line is known.
    pub file: Option<String>,
    /// Path of the file relative to `capture.directory`; `None`: the file is not below that folder.
    pub file_relative: Option<String>,
    /// Line number, from 1; `None`: no Python line is known.
    pub line: Option<u32>,
    /// Qualified name of the function that contains the line; `None`: no Python line is known.
    pub function: Option<String>,
    /// Class of the autograd node that allocated the memory, such as `AddmmBackward0`. The line is that of the node's
    /// forward. Absent if no node allocated it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl Place {
    /// The line of an owner.
    pub fn of(owner: Option<&Owner>) -> Self {
        let line = owner.and_then(Owner::line);
        Self {
            file: line.map(|line| line.file.clone()),
            file_relative: line.and_then(|line| line.relative.clone()),
            line: line.map(|line| line.line),
            function: line.map(|line| line.function.clone()),
            node: owner.and_then(Owner::node).map(str::to_owned),
        }
    }
}
