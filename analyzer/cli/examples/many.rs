//! Runs many command lines of gpumem-analyze in one process, for tests. Each line of standard input is a JSON list of
//! arguments; the answer is a line with the exit code, standard output and standard error.

use std::ffi::OsString;
use std::io::{self, Write as _};

use gpumem_analyze::{Output, run};

fn main() -> anyhow::Result<()> {
    for line in io::stdin().lines() {
        let words: Vec<String> = serde_json::from_str(&line?)?;
        let words = words.into_iter().map(OsString::from);
        let arguments: Vec<OsString> = ["gpumem-analyze".into()].into_iter().chain(words).collect();
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let code = run(&arguments, &mut Output::plain(&mut out, &mut notes));
        let (out, notes) = (
            String::from_utf8_lossy(&out),
            String::from_utf8_lossy(&notes),
        );
        serde_json::to_writer(io::stdout(), &(code, out, notes))?;
        io::stdout().write_all(b"\n")?;
    }
    Ok(())
}
