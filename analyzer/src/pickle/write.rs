//! Writes a pickle of protocol 4, value by value. It uses only the opcodes that PyTorch's own viewer of snapshots
//! supports, which is a small interpreter in a browser.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::opcodes as op;

/// How many values of a list are written at once, as in Python's own pickler. The viewer recurses over them.
const BATCH: u32 = 1000;

/// A value that was written and can be referenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered(u32);

/// A list that is being written.
#[derive(Debug, Default)]
#[must_use]
pub struct List {
    /// Values in the current batch.
    values: u32,
}

/// Writes one pickle. The caller begins and ends lists and dicts, and announces each value of a list.
#[derive(Debug)]
pub struct PickleWriter<W> {
    to: W,
    remembered: u32,
    keys: FxHashMap<&'static str, Remembered>,
}

impl<W: Write> PickleWriter<W> {
    /// Begins a pickle.
    ///
    /// # Errors
    /// The system's, as everywhere here.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&[op::PROTO, 4])?;
        Ok(Self {
            to,
            remembered: 0,
            keys: FxHashMap::default(),
        })
    }

    /// Ends the pickle. The last value is its root.
    pub fn finish(mut self) -> io::Result<W> {
        self.code(op::STOP)?;
        Ok(self.to)
    }

    /// Nothing.
    pub fn none(&mut self) -> io::Result<()> {
        self.code(op::NONE)
    }

    /// A truth value.
    pub fn bool(&mut self, value: bool) -> io::Result<()> {
        self.code(if value { op::NEWTRUE } else { op::NEWFALSE })
    }

    /// A whole number. Numbers above 2^63 − 1 are written as that, the maximum of the viewer.
    pub fn int(&mut self, value: u64) -> io::Result<()> {
        let value = value.min(i64::MAX as u64);
        let le = value.to_le_bytes();
        match value {
            0..=0xff => self.to.write_all(&[op::BININT1, le[0]]),
            0x100..=0xffff => self.to.write_all(&[op::BININT2, le[0], le[1]]),
            0x1_0000..=0x7fff_ffff => {
                self.code(op::BININT)?;
                self.to.write_all(&le[..4])
            }
            _ => {
                // In two's complement: the highest bit is the sign's.
                let bytes = 8 - value.leading_zeros() as usize / 8;
                let bytes = bytes + usize::from(value.leading_zeros().is_multiple_of(8));
                self.to.write_all(&[op::LONG1, bytes as u8])?;
                self.to.write_all(&le[..bytes])
            }
        }
    }

    /// A text.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        match u8::try_from(text.len()) {
            Ok(length) => self.to.write_all(&[op::SHORT_BINUNICODE, length])?,
            Err(_) => {
                let length = u32::try_from(text.len()).map_err(io::Error::other)?;
                self.code(op::BINUNICODE)?;
                self.to.write_all(&length.to_le_bytes())?;
            }
        }
        self.to.write_all(text.as_bytes())
    }

    /// A text that occurs repeatedly. It is written once and then referenced.
    pub fn word(&mut self, word: &'static str) -> io::Result<()> {
        if let Some(known) = self.keys.get(word).copied() {
            return self.again(known);
        }
        self.text(word)?;
        let known = self.remember()?;
        self.keys.insert(word, known);
        Ok(())
    }

    /// A pair of two small numbers.
    pub fn pair(&mut self, a: u64, b: u64) -> io::Result<()> {
        self.int(a)?;
        self.int(b)?;
        self.code(op::TUPLE2)
    }

    /// Remembers the value that was written last.
    pub fn remember(&mut self) -> io::Result<Remembered> {
        self.code(op::MEMOIZE)?;
        self.remembered += 1;
        Ok(Remembered(self.remembered - 1))
    }

    /// References a remembered value. It is the same value, not a copy.
    pub fn again(&mut self, value: Remembered) -> io::Result<()> {
        match u8::try_from(value.0) {
            Ok(short) => self.to.write_all(&[op::BINGET, short]),
            Err(_) => {
                self.code(op::LONG_BINGET)?;
                self.to.write_all(&value.0.to_le_bytes())
            }
        }
    }

    /// Begins a list.
    pub fn begin_list(&mut self) -> io::Result<List> {
        self.code(op::EMPTY_LIST)?;
        Ok(List::default())
    }

    /// A value of the list follows.
    pub fn item(&mut self, list: &mut List) -> io::Result<()> {
        if list.values == BATCH {
            self.code(op::APPENDS)?;
            list.values = 0;
        }
        if list.values == 0 {
            self.code(op::MARK)?;
        }
        list.values += 1;
        Ok(())
    }

    /// Ends the list, which is then the value that was written last.
    pub fn end_list(&mut self, list: List) -> io::Result<()> {
        if list.values > 0 {
            self.code(op::APPENDS)?;
        }
        Ok(())
    }

    /// Begins a dict. At least one pair of a key ([`PickleWriter::word`]) and a value follows.
    pub fn begin_dict(&mut self) -> io::Result<()> {
        self.to.write_all(&[op::EMPTY_DICT, op::MARK])
    }

    /// Ends the dict, which is then the value that was written last.
    pub fn end_dict(&mut self) -> io::Result<()> {
        self.code(op::SETITEMS)
    }

    fn code(&mut self, code: u8) -> io::Result<()> {
        self.to.write_all(&[code])
    }
}
