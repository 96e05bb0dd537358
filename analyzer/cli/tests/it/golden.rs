//! Comparison with stored outputs; `GPUMEM_BLESS=1` stores new ones.

use std::path::Path;

/// What differs from run to run: this process's id and the temporary folder.
pub fn masked(text: &str, folder: &Path) -> String {
    text.replace(&format!("pid {}", std::process::id()), "pid PID")
        .replace(&format!("{}/", folder.display()), "")
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
