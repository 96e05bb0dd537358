//! Python's package gpumem, as a process of its own: replays and dry runs are its.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::refusal::{Refusal, refused};

/// How long a command may take.
const LONGEST: Duration = Duration::from_secs(600);
/// Bytes of its output that are read.
const OUTPUT: u64 = 16 << 20;

/// How the package is run.
#[derive(Clone, Debug)]
pub struct Gpumem {
    /// The Python that has it.
    pub python: PathBuf,
    /// Whether programs may be run by `plan`.
    pub runs_programs: bool,
}

impl Gpumem {
    /// What `gpumem WORDS` prints as JSON. `folder`: where it runs.
    ///
    /// # Errors
    /// It printed none: its last line says why.
    pub fn json(
        &self,
        words: &[&OsStr],
        folder: &Path,
        limit: Option<Duration>,
    ) -> Result<Value, Refusal> {
        let limit = limit.map_or(LONGEST, |limit| limit.min(LONGEST));
        let mut command = Command::new(&self.python);
        command.args(["-m", "gpumem"]).args(words);
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Ok(own) = std::env::current_exe() {
            command.env("GPUMEM_ANALYZE", own);
        }
        let named = words
            .first()
            .map_or("gpumem".into(), |word| word.to_string_lossy());
        let failed = |error| refused!("{named}: {}: {error}", self.python.display());
        let mut child = command.spawn().map_err(failed)?;
        let (out, said) = (read(child.stdout.take()), read(child.stderr.take()));
        let Ok(out) = out.recv_timeout(limit) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(refused!(
                "{named}: it took more than {} seconds and was ended: ask for less, or run it in a shell",
                limit.as_secs()
            ));
        };
        child.wait().map_err(failed)?;
        serde_json::from_slice(&out).map_err(|_| {
            // What it leaves behind may hold its stderr open.
            let said = said
                .recv_timeout(Duration::from_secs(1))
                .unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let why = said.lines().rfind(|line| !line.trim().is_empty());
            refused!("{named}: {}", why.unwrap_or("it printed no result"))
        })
    }
}

/// All that comes out of a pipe, once it is closed.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (done, all) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(OUTPUT).read_to_end(&mut bytes);
            // What is beyond is thrown away: the writer must not wait.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        let _ = done.send(bytes);
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(python: &str) -> Gpumem {
        Gpumem {
            python: python.into(),
            runs_programs: false,
        }
    }

    #[test]
    fn what_is_no_json_is_refused_by_its_last_line() {
        // `/bin/ls -m gpumem` names what it does not find on stderr.
        let refused = of("/bin/ls").json(&[OsStr::new("whatif")], Path::new("/"), None);
        let said = refused.unwrap_err().to_string();
        assert!(said.starts_with("whatif: "), "{said}");
        let refused = of("/no/such/python").json(&[OsStr::new("whatif")], Path::new("/"), None);
        assert!(refused.unwrap_err().to_string().contains("/no/such/python"));
    }
}
