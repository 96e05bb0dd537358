//! Facts about the process in the metadata of files of rows.

use gpumem_capture::Header;

use crate::names::Names;

/// The facts in the capture and the process's number, each under `gpumem.…`.
pub(super) fn facts(names: &Names, header: &Header) -> Vec<(String, String)> {
    let process = names.process.iter();
    let mut facts: Vec<(String, String)> = process
        .map(|(key, value)| (format!("gpumem.{key}"), value.clone()))
        .collect();
    facts.push(("gpumem.pid".into(), header.pid.to_string()));
    facts
}
