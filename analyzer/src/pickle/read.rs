//! The reader of a pickle: a machine with a stack of values, marks in it, and a memo. It creates lists and dicts and
//! executes nothing.

use rustc_hash::FxHashMap;

use super::error::PickleError;
use super::opcodes as op;
use super::value::{Dict, DictId, ListId, Pickle, Shapes, Text, Value};

/// The maximum number of keys of a dict that is filled in several parts: each part creates a new shape. Python fills
/// up to 1000 keys at once, and no snapshot has a larger dict.
const KEYS_BY_PIECES: usize = 64;

/// Reads a pickle of protocol 2 to 5. Values of dicts can then be looked up by the index of their key in `names`.
/// Bytes after the pickle are ignored.
///
/// # Errors
/// The reason, with its position: see [`PickleError`].
pub fn read<'a>(
    bytes: &'a [u8],
    names: &'static [&'static str],
) -> Result<Pickle<'a>, PickleError> {
    match bytes {
        [] => return Err(PickleError::Foreign("the file is empty")),
        [op::PROTO, 2..=5, ..] => {}
        [op::PROTO, ..] => return Err(PickleError::Foreign("it has another protocol")),
        [b'P', b'K', ..] => {
            return Err(PickleError::Foreign(
                "it is a zip file, as torch.save() writes: use torch.cuda.memory._dump_snapshot()",
            ));
        }
        [0x1f, 0x8b, ..] => return Err(PickleError::Foreign("it is compressed: gunzip it first")),
        _ => {
            return Err(PickleError::Foreign(
                "its first bytes are not those of a pickle",
            ));
        }
    }
    let mut machine = Machine {
        bytes,
        at: 2,
        opcode_at: 2,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        far_memo: FxHashMap::default(),
        keys: Vec::new(),
        pickle: Pickle {
            bytes,
            root: Value::None,
            lists: Vec::new(),
            dicts: Vec::new(),
            shapes: Shapes::new(names),
        },
    };
    while machine.step()? {}
    Ok(machine.pickle)
}

struct Machine<'a> {
    bytes: &'a [u8],
    /// The next byte.
    at: usize,
    /// The position of the current opcode.
    opcode_at: usize,
    stack: Vec<Value>,
    /// Lengths of the stack at the marks.
    marks: Vec<usize>,
    /// The memo by number: pickles count up from 0.
    memo: Vec<Value>,
    /// Entries of the memo with other numbers.
    far_memo: FxHashMap<u32, Value>,
    /// Keys of the dict that is being filled.
    keys: Vec<Text>,
    pickle: Pickle<'a>,
}

type Done<T> = Result<T, PickleError>;

impl<'a> Machine<'a> {
    fn malformed(&self, what: &'static str) -> PickleError {
        PickleError::Malformed {
            offset: self.opcode_at,
            what,
        }
    }

    fn take(&mut self, count: usize) -> Done<&'a [u8]> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(PickleError::CutOff {
            offset: self.opcode_at,
        })?;
        self.at += count;
        Ok(taken)
    }

    /// A little-endian number of up to 8 bytes.
    fn unsigned(&mut self, count: usize) -> Done<u64> {
        let bytes = self.take(count)?.iter().rev();
        Ok(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, count: usize) -> Done<usize> {
        let length = self.unsigned(count)?;
        usize::try_from(length).map_err(|_| PickleError::CutOff {
            offset: self.opcode_at,
        })
    }

    fn pop(&mut self) -> Done<Value> {
        // Values below the newest mark are not accessible until the mark is popped.
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(self.malformed("it removes more values than its stack has"));
        }
        Ok(self.stack.pop().unwrap_or(Value::None))
    }

    fn top(&self) -> Done<Value> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.last().filter(|_| self.stack.len() > floor);
        top.copied()
            .ok_or_else(|| self.malformed("it removes more values than its stack has"))
    }

    /// Pops the newest mark. Returns the index of the first value above it.
    fn unmark(&mut self) -> Done<usize> {
        let none = self.malformed("it has no mark for the end of a collection");
        self.marks.pop().ok_or(none)
    }

    fn remember(&mut self, number: u64) -> Done<()> {
        let value = self.top()?;
        let number = number as u32;
        let next = self.memo.len();
        match self.memo.get_mut(number as usize) {
            Some(known) => *known = value,
            None if number as usize == next => self.memo.push(value),
            None => drop(self.far_memo.insert(number, value)),
        }
        Ok(())
    }

    fn recall(&mut self, number: u64) -> Done<()> {
        let number = number as u32;
        let value = self.memo.get(number as usize);
        let value = value.or_else(|| self.far_memo.get(&number)).copied();
        let none = self.malformed("it refers to a memo entry that does not exist");
        self.stack.push(value.ok_or(none)?);
        Ok(())
    }

    fn text(&mut self, bytes_of_length: usize) -> Done<()> {
        let length = self.length(bytes_of_length)?;
        let start = self.at;
        self.take(length)?;
        let long = self.malformed("a string has more than 4 GiB");
        let text = Text::new(start, length).ok_or(long)?;
        self.stack.push(Value::Text(text));
        Ok(())
    }

    fn skip(&mut self, bytes_of_length: usize) -> Done<()> {
        let length = self.length(bytes_of_length)?;
        self.take(length)?;
        self.stack.push(Value::Other);
        Ok(())
    }

    /// A little-endian number in two's complement.
    fn long(&mut self, bytes_of_length: usize) -> Done<()> {
        let length = self.length(bytes_of_length)?;
        let bytes = self.take(length)?;
        let value = match bytes.len() {
            0 => Value::Int(0),
            1..=8 => {
                let number = bytes
                    .iter()
                    .rev()
                    .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
                let unused = 64 - 8 * bytes.len() as u32;
                Value::Int((number << unused) as i64 >> unused)
            }
            _ => Value::Other,
        };
        self.stack.push(value);
        Ok(())
    }

    fn tuple(&mut self, count: usize) -> Done<()> {
        let from = self.stack.len().saturating_sub(count);
        let tuple = Value::of_tuple(self.stack.get(from..).unwrap_or(&[]));
        for _ in 0..count {
            self.pop()?;
        }
        self.stack.push(tuple);
        Ok(())
    }

    fn new_list(&mut self, values: Vec<Value>) -> Done<()> {
        let id = u32::try_from(self.pickle.lists.len());
        let id = id.map_err(|_| self.malformed("it has more than 4 billion lists"))?;
        self.pickle.lists.push(values);
        self.stack.push(Value::List(ListId(id)));
        Ok(())
    }

    fn new_dict(&mut self) -> Done<DictId> {
        let id = u32::try_from(self.pickle.dicts.len());
        let id = id.map_err(|_| self.malformed("it has more than 4 billion dicts"))?;
        self.pickle.dicts.push(Dict::default());
        self.stack.push(Value::Dict(DictId(id)));
        Ok(DictId(id))
    }

    /// Pops the values from `from` on and appends them to the list below them.
    fn append(&mut self, from: usize) -> Done<()> {
        let below = from.checked_sub(1).and_then(|at| self.stack.get(at));
        let Some(Value::List(id)) = below.copied() else {
            return Err(self.malformed("it appends to a value that is not a list"));
        };
        if let Some(list) = self.pickle.lists.get_mut(id.0 as usize) {
            list.extend(self.stack.drain(from..));
        }
        Ok(())
    }

    /// Pops the keys and values from `from` on and adds them to the dict below them.
    fn set(&mut self, from: usize) -> Done<()> {
        let below = from.checked_sub(1).and_then(|at| self.stack.get(at));
        let Some(Value::Dict(id)) = below.copied() else {
            return Err(self.malformed("it sets items of a value that is not a dict"));
        };
        let items = self.stack.get(from..).unwrap_or(&[]);
        if items.is_empty() {
            return Ok(());
        }
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(self.malformed("a key has no value"));
        }
        let Some(dict) = self.pickle.dicts.get_mut(id.0 as usize) else {
            return Ok(());
        };
        self.keys.clear();
        if !dict.values.is_empty() {
            if dict.values.len() + pairs.len() > KEYS_BY_PIECES {
                return Err(PickleError::Malformed {
                    offset: self.opcode_at,
                    what: "a dict is filled in parts with more keys than a snapshot has",
                });
            }
            self.keys
                .extend_from_slice(self.pickle.shapes.keys(dict.shape));
        }
        dict.values.reserve_exact(pairs.len());
        for [key, value] in pairs {
            let Value::Text(key) = key else {
                return Err(PickleError::Malformed {
                    offset: self.opcode_at,
                    what: "a key of a dict is not a string",
                });
            };
            self.keys.push(*key);
            dict.values.push(*value);
        }
        dict.shape = self.pickle.shapes.of(&self.keys, self.bytes);
        self.stack.truncate(from);
        Ok(())
    }

    /// Executes the next opcode. Returns false at the end of the pickle.
    fn step(&mut self) -> Done<bool> {
        self.opcode_at = self.at;
        let [code] = *self.take(1)? else {
            return Ok(false);
        };
        match code {
            op::STOP => {
                self.pickle.root = self.pop()?;
                return Ok(false);
            }
            // The protocol may be repeated.
            op::PROTO => drop(self.take(1)?),
            op::FRAME => drop(self.take(8)?),
            op::MARK => self.marks.push(self.stack.len()),
            op::NONE => self.stack.push(Value::None),
            op::NEWTRUE => self.stack.push(Value::Bool(true)),
            op::NEWFALSE => self.stack.push(Value::Bool(false)),
            op::BININT => {
                let number = self.unsigned(4)? as u32 as i32;
                self.stack.push(Value::Int(i64::from(number)));
            }
            op::BININT1 => {
                let number = self.unsigned(1)? as i64;
                self.stack.push(Value::Int(number));
            }
            op::BININT2 => {
                let number = self.unsigned(2)? as i64;
                self.stack.push(Value::Int(number));
            }
            op::LONG1 => self.long(1)?,
            op::LONG4 => self.long(4)?,
            op::BINFLOAT => {
                let bits = self.unsigned(8)?.swap_bytes();
                self.stack.push(Value::Float(f64::from_bits(bits)));
            }
            op::SHORT_BINUNICODE => self.text(1)?,
            op::BINUNICODE => self.text(4)?,
            op::BINUNICODE8 => self.text(8)?,
            op::SHORT_BINBYTES => self.skip(1)?,
            op::BINBYTES => self.skip(4)?,
            op::BINBYTES8 => self.skip(8)?,
            op::EMPTY_TUPLE => self.stack.push(Value::Other),
            op::TUPLE1 => self.tuple(1)?,
            op::TUPLE2 => self.tuple(2)?,
            op::TUPLE3 => self.tuple(3)?,
            op::TUPLE => {
                let from = self.unmark()?;
                let tuple = Value::of_tuple(self.stack.get(from..).unwrap_or(&[]));
                self.stack.truncate(from);
                self.stack.push(tuple);
            }
            op::EMPTY_LIST => self.new_list(Vec::new())?,
            op::LIST => {
                let from = self.unmark()?;
                let values = self.stack.split_off(from.min(self.stack.len()));
                self.new_list(values)?;
            }
            op::APPEND => {
                let value = self.pop()?;
                self.top()?;
                self.stack.push(value);
                self.append(self.stack.len() - 1)?;
            }
            op::APPENDS => {
                let from = self.unmark()?;
                self.append(from)?;
            }
            op::EMPTY_DICT => drop(self.new_dict()?),
            op::DICT => {
                let from = self.unmark()?;
                let items = self.stack.split_off(from.min(self.stack.len()));
                self.new_dict()?;
                let from = self.stack.len();
                self.stack.extend(items);
                self.set(from)?;
            }
            op::SETITEM => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.top()?;
                self.stack.extend([key, value]);
                self.set(self.stack.len() - 2)?;
            }
            op::SETITEMS => {
                let from = self.unmark()?;
                self.set(from)?;
            }
            op::MEMOIZE => {
                let number = self.memo.len() as u64;
                self.remember(number)?;
            }
            op::BINPUT => {
                let number = self.unsigned(1)?;
                self.remember(number)?;
            }
            op::LONG_BINPUT => {
                let number = self.unsigned(4)?;
                self.remember(number)?;
            }
            op::BINGET => {
                let number = self.unsigned(1)?;
                self.recall(number)?;
            }
            op::LONG_BINGET => {
                let number = self.unsigned(4)?;
                self.recall(number)?;
            }
            code => return Err(self.refused(code)),
        }
        Ok(true)
    }

    #[cold]
    fn refused(&self, code: u8) -> PickleError {
        let offset = self.opcode_at;
        match op::RUNS.iter().find(|(runs, _)| *runs == code) {
            Some((_, opcode)) => PickleError::Runs { offset, opcode },
            None => PickleError::Unknown { offset, code },
        }
    }
}
