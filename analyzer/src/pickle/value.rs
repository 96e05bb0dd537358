//! What a pickle holds. Lists and dicts are numbers into one table, so that sharing costs nothing and
//! nothing is ever walked by recursion.

use rustc_hash::FxHashMap;

/// A text: a place in the file.
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
    /// Another tuple, bytes, or a number of more bits: what it is is not kept.
    Other,
}

impl Value {
    /// A tuple, as far as it is kept.
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

/// The keys of dicts that are alike: most have the keys of many others, in the same order. For each
/// name that is asked for, where its value stands.
#[derive(Debug)]
pub(super) struct Shape {
    keys: Vec<Text>,
    places: Vec<Option<u32>>,
}

/// The names by which values of dicts are asked for, and all shapes that were seen.
#[derive(Debug)]
pub struct Shapes {
    names: &'static [&'static str],
    shapes: Vec<Shape>,
    by_keys: FxHashMap<Vec<Text>, u32>,
    /// The shape that came last: most often the next one, too.
    last: u32,
}

impl Shapes {
    /// No shape yet. Values are asked for by the index of their key in `names`.
    pub fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            shapes: Vec::new(),
            by_keys: FxHashMap::default(),
            last: 0,
        }
    }

    /// The number of a shape.
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
            // The last of several equal keys counts.
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

/// A dict: its keys are its shape's.
#[derive(Debug, Default)]
pub(super) struct Dict {
    /// Number of the shape; of no meaning while there are no values.
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
    /// What was pickled.
    pub fn root(&self) -> Value {
        self.root
    }

    /// A list's values.
    pub fn list(&self, id: ListId) -> &[Value] {
        self.lists.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// A dict's value under the key that has this index in the names that were given.
    pub fn get(&self, id: DictId, name: usize) -> Option<Value> {
        let dict = self.dicts.get(id.0 as usize)?;
        if dict.values.is_empty() {
            return None;
        }
        let at = self.shapes.place(dict.shape, name)?;
        dict.values.get(at).copied()
    }

    /// A text as it stands in the file.
    pub fn bytes(&self, text: Text) -> &'a [u8] {
        text.bytes(self.bytes)
    }

    /// A text, what is no UTF-8 replaced.
    pub fn text(&self, text: Text) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.bytes(text))
    }
}
