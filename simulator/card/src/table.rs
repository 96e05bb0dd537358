//! Takes and frees memory of the cards, and lists the processes that hold it.

pub use crate::file::UNITS;
use crate::file::{Layout, ROWS, Row, map};
use crate::process::Identity;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One process that has memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Its bytes.
    pub bytes: u64,
}

/// The shared table, as one process uses it.
pub struct Cards {
    layout: &'static Layout,
    /// This process's row, once it has taken something.
    own: AtomicUsize,
}

const NO_ROW: usize = usize::MAX;

impl std::fmt::Debug for Cards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cards").field("own", &self.own).finish()
    }
}

impl Row {
    fn identity(&self) -> Identity {
        let started = self.started.load(Ordering::Acquire);
        Identity::written(started, self.stack.load(Ordering::Acquire))
    }

    fn is_alive(&self) -> bool {
        let pid = self.pid.load(Ordering::Acquire);
        pid != 0 && self.identity().is_still(pid)
    }

    /// Bytes in the row, of any process; 0 if the row is empty.
    fn bytes(&self, unit: usize) -> u64 {
        match self.pid.load(Ordering::Acquire) {
            0 => 0,
            _ => self.bytes[unit].load(Ordering::Acquire),
        }
    }
}

impl Cards {
    /// Opens the table at `path`, creating it if it does not exist.
    ///
    /// # Errors
    /// Those of the file system; `InvalidData` if the file has another format.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            layout: map(path)?,
            own: AtomicUsize::new(NO_ROW),
        })
    }

    /// Takes `bytes` of a unit whose `limit` applies to all processes together. Returns false and
    /// changes nothing if fewer bytes are free.
    pub fn take(&self, unit: usize, bytes: u64, limit: u64) -> bool {
        let Ok(_held) = self.layout.lock().hold() else {
            return false;
        };
        self.take_held(unit, bytes, limit)
    }

    /// Takes as many whole `step`s as are free, at most `most` bytes. Returns the bytes taken.
    pub fn take_up_to(&self, unit: usize, most: u64, step: u64, limit: u64) -> u64 {
        let Ok(_held) = self.layout.lock().hold() else {
            return 0;
        };
        let taken = limit.saturating_sub(self.others(unit) + self.own_bytes(unit));
        let bytes = (taken / step * step).min(most);
        if self.take_held(unit, bytes, limit) {
            bytes
        } else {
            0
        }
    }

    /// Frees bytes that this process has taken.
    pub fn give(&self, unit: usize, bytes: u64) {
        if let Some(row) = self.layout.rows.get(self.own.load(Ordering::Acquire)) {
            // Atomic: this takes no lock, and another thread may take memory at the same time.
            let less = |held: u64| Some(held.saturating_sub(bytes));
            let _ = row.bytes[unit].fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        }
    }

    /// Bytes of a unit that all other live processes hold.
    pub fn others(&self, unit: usize) -> u64 {
        let own = self.own.load(Ordering::Acquire);
        let others = self.rows().enumerate().filter(|(index, _)| *index != own);
        others
            .filter(|(_, row)| row.bytes(unit) > 0 && row.is_alive())
            .map(|(_, row)| row.bytes(unit))
            .sum()
    }

    /// Every live process that has memory of a unit, including this one.
    pub fn holders(&self, unit: usize) -> Vec<Holder> {
        let holding = self.rows().filter(|row| row.bytes(unit) > 0);
        holding
            .filter(|row| row.is_alive())
            .map(|row| Holder {
                pid: row.pid.load(Ordering::Acquire),
                bytes: row.bytes(unit),
            })
            .collect()
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        let used = self.layout.used().load(Ordering::Acquire) as usize;
        self.layout.rows.iter().take(used)
    }

    fn own_bytes(&self, unit: usize) -> u64 {
        let own = self.layout.rows.get(self.own.load(Ordering::Acquire));
        own.map_or(0, |row| row.bytes(unit))
    }

    /// Requires the lock. Checks whether the other processes are alive only if their memory is
    /// needed.
    fn take_held(&self, unit: usize, bytes: u64, limit: u64) -> bool {
        let own = self.own_bytes(unit);
        let all: u64 = self.rows().map(|row| row.bytes(unit)).sum();
        let fits = |used: u64| used.checked_add(bytes).is_some_and(|sum| sum <= limit);
        if !fits(all) && !fits(self.others(unit) + own) {
            return false;
        }
        let Some(row) = self.own_row() else {
            return false;
        };
        row.bytes[unit].fetch_add(bytes, Ordering::AcqRel);
        true
    }

    /// This process's row: an unused one, or one whose process has ended. Requires the lock.
    fn own_row(&self) -> Option<&Row> {
        if let Some(row) = self.layout.rows.get(self.own.load(Ordering::Acquire)) {
            return Some(row);
        }
        let used = self.rows().count();
        let pid = std::process::id();
        // A row with this process's id is from before it called `exec`, or belongs to an earlier
        // process with the same id.
        let is_free = |row: &Row| row.pid.load(Ordering::Acquire) == pid || !row.is_alive();
        let index = self.rows().position(is_free).unwrap_or(used);
        let row = self.layout.rows.get(index).filter(|_| index < ROWS)?;
        let identity = Identity::own();
        row.pid.store(0, Ordering::Release);
        for cell in &row.bytes {
            cell.store(0, Ordering::Release);
        }
        row.started.store(identity.started, Ordering::Release);
        row.stack.store(identity.stack, Ordering::Release);
        row.pid.store(pid, Ordering::Release);
        let used = self.layout.used();
        used.fetch_max(index as u32 + 1, Ordering::AcqRel);
        self.own.store(index, Ordering::Release);
        Some(row)
    }
}
