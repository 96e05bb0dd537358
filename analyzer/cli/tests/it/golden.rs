//! Comparison with stored outputs. `GPUMEM_BLESS=1 scripts/test unit` stores new ones.

use std::path::Path;

/// Masks text that differs from run to run: this process's id and the temporary folder.
pub fn masked(text: &str, folder: &Path) -> String {
    let pid = std::process::id();
    let text = text
        .replace(&format!("pid {pid}"), "pid PID")
        .replace(&format!("\"pid\": {pid}"), "\"pid\": 1")
        .replace(&format!("\"pid\":{pid}"), "\"pid\":1")
        .replace(&format!("{}/", folder.display()), "");
    // The real time at which a test's capture was written.
    let mut parts = text.split("\"started_unix_ns\":");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(',').unwrap_or(part.len());
        masked += &format!("\"started_unix_ns\": 0{}", &part[end..]);
    }
    masked
}

/// Compares with tests/golden/`name`.snap.
#[track_caller]
pub fn golden(name: &str, actual: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    // The mark shows newlines at the end, which insta ignores.
    settings.bind(|| insta::assert_snapshot!(name, format!("{actual}∎")));
}
