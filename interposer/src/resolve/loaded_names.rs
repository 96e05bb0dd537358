//! Libraries that were loaded in a way that the account reports. They are recorded at any time, from any thread,
//! without a lock and without the program's memory.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, Ordering};

use gpumem_capture::Writer;

use crate::account;

/// What is recorded of a library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    DeepBind,
    Namespace,
}

/// Maximum length of a library's name; the end is kept, because it is more informative than the beginning.
const LONGEST: usize = 120;

const FREE: u8 = 0;
const BEING_WRITTEN: u8 = 1;
const KEPT: u8 = 2;
const TOLD: u8 = 3;

/// The name of a recorded library.
struct Name {
    state: AtomicU8,
    text: UnsafeCell<([u8; LONGEST], u8, What)>,
}

// SAFETY: the text is written by the thread that took the place from FREE to BEING_WRITTEN, and read
// only once it is KEPT, after which nobody writes it.
unsafe impl Sync for Name {}

impl Name {
    /// The text, once it is complete.
    fn text(&self) -> Option<(&[u8], What)> {
        if self.state.load(Ordering::Acquire) < KEPT {
            return None;
        }
        // SAFETY: complete, so nobody writes it any more.
        let (text, length, what) = unsafe { &*self.text.get() };
        Some((text.get(..usize::from(*length))?, *what))
    }
}

/// The recorded libraries.
pub(super) struct Names([Name; 64]);

impl Names {
    /// An empty list.
    pub(super) const fn new() -> Self {
        Self(
            [const {
                Name {
                    state: AtomicU8::new(FREE),
                    text: UnsafeCell::new(([0; LONGEST], 0, What::DeepBind)),
                }
            }; 64],
        )
    }

    /// The libraries whose names are complete.
    #[cfg(test)]
    pub(super) fn kept(&self) -> impl Iterator<Item = (&[u8], What)> {
        self.0.iter().filter_map(Name::text)
    }

    /// Records a library's name for the account, once.
    pub(super) fn note(&self, path: &[u8], what: What) {
        let name = path
            .get(path.len().saturating_sub(LONGEST)..)
            .unwrap_or(path);
        for place in &self.0 {
            if place.text() == Some((name, what)) {
                return;
            }
            let took = place.state.compare_exchange(
                FREE,
                BEING_WRITTEN,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if took.is_err() {
                continue;
            }
            // SAFETY: the place is this thread's until it is marked as kept.
            let (text, length, noted) = unsafe { &mut *place.text.get() };
            *noted = what;
            if let Some(room) = text.get_mut(..name.len()) {
                room.copy_from_slice(name);
                *length = name.len() as u8;
            }
            place.state.store(KEPT, Ordering::Release);
            account::something_new();
            return;
        }
    }

    /// Writes the notes that have not been written: one for each library.
    pub(super) fn write(&self, writer: &'static Writer) {
        for place in &self.0 {
            let told =
                place
                    .state
                    .compare_exchange(KEPT, TOLD, Ordering::AcqRel, Ordering::Relaxed);
            if let (Ok(_), Some((text, what))) = (told, place.text()) {
                let name = String::from_utf8_lossy(text);
                let line = match what {
                    What::DeepBind => format!("RTLD_DEEPBIND was taken from dlopen of {name}"),
                    What::Namespace => format!(
                        "inexact: {name} was loaded into another namespace (dlmopen), whose calls are not recorded"
                    ),
                };
                account::note(writer, &line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_by_its_end() {
        let long = [b"/x".repeat(100), b"/libfar.so".to_vec()].concat();
        let names = Names::new();
        for what in [What::DeepBind, What::DeepBind, What::Namespace] {
            names.note(&long, what);
        }
        let same = |(text, what): (&[u8], What)| (text.len(), what as u8);
        let expected = [
            (LONGEST, What::DeepBind as u8),
            (LONGEST, What::Namespace as u8),
        ];
        assert_eq!(names.kept().map(same).collect::<Vec<_>>(), expected);
    }
}
