//! The values of a pickle. Lists and dicts are numbers into one table, so sharing them is free and no code recurses.

use rustc_hash::FxHashMap;

/// A text: a range of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Text {
    start: u64,
    length: u32,
}

/// A list's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListId(pub(super) u32);

/// A dict's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DictId(pub(super) u32);

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number of up to 64 bits.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(Text),
    /// A list.
    List(ListId),
    /// A dict.
    Dict(DictId),
    /// A tuple of two whole numbers of up to 32 bits.
    Pair(u32, u32),
    /// Another tuple, bytes, or a number of more than 64 bits. The value is not kept.
    Other,
}

impl Value {
    /// From a tuple: a [`Value::Pair`] if it has two small numbers.
    pub(super) fn of_tuple(values: &[Self]) -> Self {
        let number = |value: i64| u32::try_from(value).ok();
        let [Self::Int(a), Self::Int(b)] = values else {
            return Self::Other;
        };
        match (number(*a), number(*b)) {
            (Some(a), Some(b)) => Self::Pair(a, b),
            _ => Self::Other,
        }
    }
}

/// The keys that several dicts share, in the same order, and for each name that can be looked up the index of its
/// value. Most dicts have the same keys as many others.
#[derive(Debug)]
pub(super) struct Shape {
    keys: Vec<Text>,
    places: Vec<Option<u32>>,
}

/// The names by which values of dicts are looked up, and all shapes so far.
#[derive(Debug)]
pub struct Shapes {
    names: &'static [&'static str],
    shapes: Vec<Shape>,
    by_keys: FxHashMap<Vec<Text>, u32>,
    /// The latest shape, which is most likely the next one, too.
    last: u32,
}

impl Shapes {
    /// Without shapes. Values are looked up by the index of their key in `names`.
    pub fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            shapes: Vec::new(),
            by_keys: FxHashMap::default(),
            last: 0,
        }
    }

    /// The number of the shape with these keys.
    pub(super) fn of(&mut self, keys: &[Text], bytes: &[u8]) -> u32 {
        let last = self.shapes.get(self.last as usize);
        if last.is_some_and(|last| last.keys == keys) {
            return self.last;
        }
        if let Some(known) = self.by_keys.get(keys) {
            self.last = *known;
            return *known;
        }
        let place = |name: &&str| {
            // Of several equal keys, the last one counts.
            let at = keys
                .iter()
                .rposition(|key| key.bytes(bytes) == name.as_bytes())?;
            u32::try_from(at).ok()
        };
        let places = self.names.iter().map(place).collect();
        self.shapes.push(Shape {
            keys: keys.to_vec(),
            places,
        });
        self.last = self.shapes.len() as u32 - 1;
        self.by_keys.insert(keys.to_vec(), self.last);
        self.last
    }

    fn place(&self, shape: u32, name: usize) -> Option<usize> {
        let place = self.shapes.get(shape as usize)?.places.get(name)?;
        place.map(|place| place as usize)
    }

    pub(super) fn keys(&self, shape: u32) -> &[Text] {
        self.shapes
            .get(shape as usize)
            .map_or(&[], |shape| &shape.keys)
    }
}

impl Text {
    pub(super) fn new(start: usize, length: usize) -> Option<Self> {
        Some(Self {
            start: start as u64,
            length: u32::try_from(length).ok()?,
        })
    }

    fn bytes(self, of: &[u8]) -> &[u8] {
        let start = self.start as usize;
        of.get(start..start + self.length as usize).unwrap_or(&[])
    }
}

/// A dict. Its keys are in its shape.
#[derive(Debug, Default)]
pub(super) struct Dict {
    /// Number of the shape; unused while there are no values.
    pub(super) shape: u32,
    pub(super) values: Vec<Value>,
}

/// A pickle that was read.
#[derive(Debug)]
pub struct Pickle<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) root: Value,
    pub(super) lists: Vec<Vec<Value>>,
    pub(super) dicts: Vec<Dict>,
    pub(super) shapes: Shapes,
}

impl<'a> Pickle<'a> {
    /// The value that was pickled.
    pub fn root(&self) -> Value {
        self.root
    }

    /// A list's values.
    pub fn list(&self, id: ListId) -> &[Value] {
        self.lists.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// A dict's value for the key with this index in the names.
    pub fn get(&self, id: DictId, name: usize) -> Option<Value> {
        let dict = self.dicts.get(id.0 as usize)?;
        if dict.values.is_empty() {
            return None;
        }
        let at = self.shapes.place(dict.shape, name)?;
        dict.values.get(at).copied()
    }

    /// The bytes of a text in the file.
    pub fn bytes(&self, text: Text) -> &'a [u8] {
        text.bytes(self.bytes)
    }

    /// A text, with invalid UTF-8 replaced.
    pub fn text(&self, text: Text) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.bytes(text))
    }
}
