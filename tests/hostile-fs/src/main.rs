//! A FUSE file system for tests: passes requests on to a folder, and delays, fails, shortens or holds them
//! on command.
//!
//! ```text
//! hostile-fs FOLDER MOUNT --control SOCKET [--until-stdin-closes]
//! ```
//!
//! Prints `mounted` once requests are answered. SIGTERM, SIGINT and SIGHUP unmount. So does the end of stdin
//! with `--until-stdin-closes`, so a test that is killed leaves no mount. Commands: see `control`.
//!
//! # Design constraints
//! - A held request blocks no other: each has a separate thread.
//! - Files can be mapped for writing and shared; attributes are never cached by the kernel.
//! - Root mounts directly; other users need `fusermount3`.
//! - The end of the process ends every held request with an error, whatever its client is waiting for.
//!
//! # Not suitable for
//! Anything but tests: inodes are never forgotten, and symbolic links and attributes beyond stat's are left out.

mod control;
mod disk;
mod operation;
mod rules;
mod sys;
mod tree;

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::Parser;
use fuser::{Config, MountOption, Session};

/// A file system for tests, which delays, fails, shortens or holds requests on command.
#[derive(Parser)]
struct Arguments {
    /// Where the files are.
    folder: PathBuf,
    /// Where they appear.
    mount: PathBuf,
    /// The Unix socket on which commands are answered; it must not be in MOUNT.
    #[arg(long)]
    control: PathBuf,
    /// Unmount when stdin is closed.
    #[arg(long)]
    until_stdin_closes: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hostile-fs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    sys::block_ends()?;
    sys::clear_umask();
    let mount = arguments.mount.canonicalize()?;
    let rules = Arc::default();
    let disk = disk::Disk::new(
        tree::Tree::new(&arguments.folder.canonicalize()?)?,
        Arc::clone(&rules),
    );
    let listener = UnixListener::bind(&arguments.control)?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("hostile-fs".to_owned()),
        MountOption::RW,
    ];
    let session = Session::new(disk, &mount, &config)?;
    std::thread::spawn(move || control::serve(&listener, &rules));
    start_end(&mount, &arguments.control, sys::wait_for_end);
    if arguments.until_stdin_closes {
        start_end(&mount, &arguments.control, || {
            let _ = io::stdin().read_to_end(&mut Vec::new());
        });
    }
    println!("mounted");
    io::stdout().flush()?;
    session.run()
}

/// Starts a thread that unmounts and ends the process once `wait` has returned.
fn start_end(mount: &Path, socket: &Path, wait: impl FnOnce() + Send + 'static) {
    let (mount, socket) = (mount.to_owned(), socket.to_owned());
    std::thread::spawn(move || {
        wait();
        let _ = std::fs::remove_file(socket);
        let code = match unmount(&mount) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("hostile-fs: cannot unmount {}: {error}", mount.display());
                1
            }
        };
        // `return` does not end threads that hold requests.
        std::process::exit(code);
    });
}

fn unmount(mount: &Path) -> io::Result<()> {
    match sys::unmount(mount) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let status = Command::new("fusermount3").arg("-uz").arg(mount).status()?;
            if status.success() { Ok(()) } else { Err(error) }
        }
        done => done,
    }
}
