//! Runs the Python package gpumem in a separate process, for replays and dry runs.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::cancel::Cancel;
use crate::refusal::{Refusal, refused};

/// The time limit of a command.
const LONGEST: Duration = Duration::from_secs(600);
/// The interval of checks for cancellation.
const LOOK: Duration = Duration::from_millis(100);
/// The time that it has to end its own child processes.
const GRACE: Duration = Duration::from_secs(5);
/// The most bytes of its output that are read.
const OUTPUT: u64 = 16 << 20;

/// How the package is run.
#[derive(Clone, Debug)]
pub struct Gpumem {
    /// The Python that has the package.
    pub python: PathBuf,
    /// The arguments that run the package.
    module: Vec<OsString>,
    /// Whether `plan` may run programs.
    pub runs_programs: bool,
}

impl Gpumem {
    /// The package of this Python.
    pub fn new(python: PathBuf, runs_programs: bool) -> Self {
        Self {
            python,
            module: ["-m", "gpumem"].map(OsString::from).into(),
            runs_programs,
        }
    }

    /// The JSON output of `gpumem WORDS`. `folder`: the working directory.
    ///
    /// # Errors
    /// It printed no JSON: the message is its last line. Or it took too long, or the request was cancelled; all of its
    /// processes are then ended.
    pub fn json(
        &self,
        words: &[&OsStr],
        folder: &Path,
        limit: Option<Duration>,
        cancel: &Cancel,
    ) -> Result<Value, Refusal> {
        let limit = limit.map_or(LONGEST, |limit| limit.min(LONGEST));
        let mut command = Command::new(&self.python);
        command.args(&self.module).args(words);
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Its child processes are ended with it.
        command.process_group(0);
        if let Ok(own) = std::env::current_exe() {
            command.env("GPUMEM_ANALYZE", own);
        }
        let named = words
            .first()
            .map_or("gpumem".into(), |word| word.to_string_lossy());
        let failed = |error| refused!("{named}: {}: {error}", self.python.display());
        let mut child = command.spawn().map_err(failed)?;
        let (out, said) = (read(child.stdout.take()), read(child.stderr.take()));
        let until = Instant::now() + limit;
        let out = loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Ok(out) = out.recv_timeout(left.min(LOOK)) {
                break out;
            }
            let why = match cancel.is_cancelled() {
                true => "it was cancelled".to_owned(),
                false if left.is_zero() => format!(
                    "it took more than {} seconds and was stopped: request less, or run it in a shell",
                    limit.as_secs()
                ),
                false => continue,
            };
            end(&mut child);
            return Err(refused!("{named}: {why}"));
        };
        child.wait().map_err(failed)?;
        serde_json::from_slice(&out).map_err(|_| {
            // A remaining child process may hold its stderr open.
            let said = said
                .recv_timeout(Duration::from_secs(1))
                .unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let why = said.lines().rfind(|line| !line.trim().is_empty());
            refused!("{named}: {}", why.unwrap_or("it printed no result"))
        })
    }
}

/// Ends a process that leads a group, and the group. The process first has time to end children in other groups.
fn end(child: &mut Child) {
    let group = Pid::from_raw(child.id() as i32);
    let send = |signal| group.map(|group| kill_process_group(group, signal));
    send(Signal::TERM);
    let until = Instant::now() + GRACE;
    while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(LOOK);
    }
    send(Signal::KILL);
    let _ = child.wait();
}

/// The whole output of a pipe, once it is closed.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (done, all) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(OUTPUT).read_to_end(&mut bytes);
            // The rest is discarded, so that the writer does not block.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        let _ = done.send(bytes);
    });
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// The result of a shell script that replaces the package.
    fn ran(script: &str, limit: Duration) -> Result<Value, Refusal> {
        ran_until(script, limit, &Cancel::default())
    }

    fn ran_until(script: &str, limit: Duration, cancel: &Cancel) -> Result<Value, Refusal> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("script"), script).unwrap();
        let shell = Gpumem {
            module: vec!["script".into()],
            ..Gpumem::new("/bin/sh".into(), false)
        };
        let words = [OsStr::new("whatif")];
        shell.json(&words, folder.path(), Some(limit), cancel)
    }

    #[test]
    fn its_output_is_json_and_its_last_line_says_why_not() {
        let printed = ran("echo \"{\\\"word\\\": \\\"$1\\\"}\"", LONGEST).unwrap();
        assert_eq!(printed["word"], "whatif");
        let refused = ran("echo first >&2; echo the reason >&2; exit 1", LONGEST);
        assert_eq!(refused.unwrap_err().to_string(), "whatif: the reason");
        let refused = ran("exit 0", LONGEST).unwrap_err().to_string();
        assert_eq!(refused, "whatif: it printed no result");
    }

    #[test]
    fn it_is_ended_once_it_takes_too_long() {
        // It waits endlessly, because no process writes into the pipe.
        let refused = ran("mkfifo pipe; exec cat <>pipe", Duration::ZERO);
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("and was stopped"), "{said}");
    }

    #[test]
    fn it_and_what_it_started_are_ended_once_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let alive = folder.path().join("alive");
        let made = Command::new("mkfifo").arg(&alive).status();
        assert!(made.unwrap().success());
        // The inner shell holds the pipe that is read, like a program that a plan runs, and another one.
        let script = format!(
            "sleep 1000 9>{} & mkfifo pipe; exec cat <>pipe",
            alive.display()
        );
        let started = Arc::new(AtomicBool::new(false));
        let cancel = {
            let started = started.clone();
            Cancel::from(move || started.load(Ordering::Relaxed))
        };
        let until_its_end = thread::spawn(move || {
            let mut pipe = std::fs::File::open(alive).unwrap();
            started.store(true, Ordering::Relaxed);
            pipe.read_to_end(&mut Vec::new()).unwrap();
        });
        let refused = ran_until(&script, LONGEST, &cancel).unwrap_err();
        assert_eq!(refused.to_string(), "whatif: it was cancelled");
        until_its_end.join().unwrap();
    }

    #[test]
    fn a_python_that_is_not_there_is_named() {
        let absent = Gpumem::new("/no/such/python".into(), false);
        let words = [OsStr::new("whatif")];
        let refused = absent.json(&words, Path::new("/"), None, &Cancel::default());
        assert!(refused.unwrap_err().to_string().contains("/no/such/python"));
    }
}
