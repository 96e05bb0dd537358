//! Requests: of browsers to `live --serve`, and of assistants.

use std::fs;
use std::path::Path;

use gpumem_capture::fuzzing::page_file;
use gpumem_mcp::fuzzing::Tools;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::captures::folder;

/// `METHOD target`, and lines `name: value`.
pub fn http(bytes: &[u8]) {
    if let Some(request) = gpumem_http::fuzzing::judge_request(bytes) {
        gpumem_live::serve::fuzzing::judge_query(&request);
    }
}

thread_local! {
    static TOOLS: (TempDir, Tools) = {
        let folder = folder();
        fs::write(folder.path().join("report.bin"), capture()).expect("room for a capture");
        let tools = Tools::new(folder.path().to_owned()).expect("a folder");
        (folder, tools)
    };
}

/// A capture for the tools, or an empty one where the repository is not there.
fn capture() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/captures/tiny.bin");
    fs::read(Path::new(path)).unwrap_or_else(|_| page_file(&[]))
}

/// The name of a tool, a line feed, and its arguments as JSON.
pub fn mcp(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some((tool, arguments)) = text.split_once('\n') else {
        return;
    };
    let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(arguments) else {
        return;
    };
    TOOLS.with(|(_, tools)| tools.judge(tool, arguments));
}
