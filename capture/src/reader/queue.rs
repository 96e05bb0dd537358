//! The queue of a process: data that is not yet written to its capture, see [`crate::ring_file`].

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::checksum::Checks;
use crate::file::fill;
use crate::layout::{self, dynamic};
use crate::ring_file::{OP_BYTES, Op};

/// The queue of a ring's file.
#[derive(Debug)]
pub(crate) struct Queue {
    ring: File,
    checks: Checks,
    /// Its offset and its length in bytes.
    start: u64,
    bytes: u64,
    /// Operations and their offsets, the oldest first.
    ops: Mutex<Arc<Vec<(u64, Op)>>>,
}

impl Queue {
    pub(crate) fn new(ring: File, checks: Checks, slots: u32, bytes: u64) -> Self {
        Self {
            ring,
            checks,
            start: layout::ring_end(slots),
            bytes,
            ops: Mutex::default(),
        }
    }

    /// The operations as of the last refresh.
    pub(crate) fn ops(&self) -> Arc<Vec<(u64, Op)>> {
        Arc::clone(&self.ops.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The bytes of an operation, if they are intact.
    pub(crate) fn bytes_of(&self, place: u64, op: &Op) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; op.bytes as usize];
        let from = self.start + place + OP_BYTES as u64;
        let have = fill(&self.ring, from, &mut bytes)?;
        Ok((have == bytes.len() && crc32fast::hash(&bytes) == op.crc).then_some(bytes))
    }

    /// The file's end after all operations are written.
    pub(crate) fn end(&self) -> u64 {
        let ops = self.ops();
        let ends = ops.iter().map(|(_, op)| op.offset + u64::from(op.bytes));
        ends.max().unwrap_or(0)
    }

    /// Reads the queue again.
    pub(crate) fn refresh(&self) -> io::Result<()> {
        let mut found = Vec::new();
        if let Some((mut number, mut place)) = self.first()? {
            while let Some((at, op)) = self.at(number, place)? {
                number += 1;
                place = at + op.length() as u64;
                found.push((at, op));
            }
        }
        *self.ops.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
        Ok(())
    }

    /// The number of the first operation that is not done, and its offset.
    fn first(&self) -> io::Result<Option<(u64, u64)>> {
        let mut bytes = [0; 32];
        fill(&self.ring, dynamic::QUEUE, &mut bytes)?;
        let [number, place, zero, check] = words(&bytes);
        let fits = check == self.checks.words(dynamic::QUEUE, &[number, place, zero]);
        Ok(fits.then_some((number, place)))
    }

    /// The operation with that number: at `place`, or at the queue's start.
    fn at(&self, number: u64, place: u64) -> io::Result<Option<(u64, Op)>> {
        for place in [place, 0] {
            if place > self.bytes.saturating_sub(OP_BYTES as u64) {
                continue;
            }
            let mut bytes = [0; OP_BYTES];
            fill(&self.ring, self.start + place, &mut bytes)?;
            let op = Op::from_words(&words(&bytes), place, &self.checks);
            let fits = |op: &Op| {
                let ends = op.offset.checked_add(u64::from(op.bytes));
                op.number == number && ends.is_some() && place + op.length() as u64 <= self.bytes
            };
            if let Some(op) = op.filter(fits) {
                return Ok(Some((place, op)));
            }
        }
        Ok(None)
    }

    /// Copies the queued data for a range of the file into `bytes`; returns its end. None if some of it has been
    /// written meanwhile.
    pub(crate) fn fill(&self, offset: u64, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        let ops = self.ops();
        let end = offset + bytes.len() as u64;
        let (mut reach, mut oldest) = (0, None);
        for (place, op) in ops.iter() {
            let (from, to) = (
                op.offset.max(offset),
                (op.offset + u64::from(op.bytes)).min(end),
            );
            if from >= to {
                continue;
            }
            oldest.get_or_insert(op.number);
            let at = self.start + place + OP_BYTES as u64 + (from - op.offset);
            let range = (from - offset) as usize..(to - offset) as usize;
            reach = reach.max(range.end);
            if let Some(to) = bytes.get_mut(range) {
                fill(&self.ring, at, to)?;
            }
        }
        let Some(oldest) = oldest else {
            return Ok(Some(0));
        };
        match self.first()? {
            Some((number, _)) if number > oldest => {
                self.refresh()?;
                Ok(None)
            }
            _ => Ok(Some(reach)),
        }
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut le = [0; 8];
        le.copy_from_slice(bytes);
        *word = u64::from_le_bytes(le);
    }
    words
}
