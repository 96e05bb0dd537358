//! A line of code in JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::attribution::Owner;

/// Where in the code; all `None` where no Python line is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Place {
    /// The file's absolute name. For code without a file, such as `<string>`, the interpreter's name.
    pub file: Option<String>,
    /// The file relative to the program's folder, if it lies below that.
    pub file_relative: Option<String>,
    /// Line number.
    pub line: Option<u32>,
    /// Function.
    pub function: Option<String>,
    /// The class of the autograd node that allocated for the line, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl Place {
    /// An owner's line.
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
