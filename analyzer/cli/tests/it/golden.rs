//! Comparison with stored outputs; `GPUMEM_BLESS=1` stores new ones.

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

/// Compares with tests/golden/`name`.
pub fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("GPUMEM_BLESS").is_some() {
        std::fs::write(&path, actual).expect("a golden can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == expected,
        "{name} differs; GPUMEM_BLESS=1 accepts it\n--- expected\n{expected}\n--- actual\n{actual}"
    );
}
