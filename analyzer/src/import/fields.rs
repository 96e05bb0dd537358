//! Values of a snapshot by the names of their keys.

use crate::pickle::{self, DictId, ListId, Pickle, PickleError, Text, Value};

macro_rules! names {
    ($($constant:ident $name:literal)*) => {
        /// Keys that are looked up.
        const NAMES: &[&str] = &[$($name),*];
        names!(@ 0, $($constant)*);
    };
    (@ $index:expr, $constant:ident $($rest:ident)*) => {
        pub(super) const $constant: usize = $index;
        names!(@ $index + 1, $($rest)*);
    };
    (@ $index:expr,) => {};
}

names! {
    SEGMENTS "segments"
    DEVICE_TRACES "device_traces"
    EXTERNAL_ANNOTATIONS "external_annotations"
    HOST_SEGMENTS "host_segments"
    DEVICE "device"
    ADDRESS "address"
    TOTAL_SIZE "total_size"
    IS_EXPANDABLE "is_expandable"
    BLOCKS "blocks"
    FRAMES "frames"
    SIZE "size"
    REQUESTED_SIZE "requested_size"
    STATE "state"
    HISTORY "history"
    REAL_SIZE "real_size"
    ACTION "action"
    ADDR "addr"
    TIME_US "time_us"
    FILENAME "filename"
    LINE "line"
    NAME "name"
    STAGE "stage"
    STREAM "stream"
    POOL_ID "pool_id"
    SEGMENT_POOL_ID "segment_pool_id"
    DEVICE_FREE "device_free"
    ALLOCATOR_SETTINGS "allocator_settings"
    CONF "PYTORCH_CUDA_ALLOC_CONF"
    EXPANDABLE_SEGMENTS "expandable_segments"
    MAX_SPLIT_SIZE "max_split_size"
    GARBAGE_COLLECTION_THRESHOLD "garbage_collection_threshold"
}

/// PyTorch's number of a private pool; zeros for the default pool.
pub(super) type PoolId = (u64, u64);

/// A pickle whose values are looked up by the names above.
#[derive(Debug)]
pub(super) struct Fields<'a>(Pickle<'a>);

impl<'a> Fields<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self, PickleError> {
        pickle::read(bytes, NAMES).map(Self)
    }

    pub fn root(&self) -> Value {
        self.0.root()
    }

    /// A list's values.
    pub fn values(&self, list: ListId) -> &[Value] {
        self.0.list(list)
    }

    /// A text, with invalid UTF-8 replaced.
    pub fn text(&self, text: Text) -> std::borrow::Cow<'a, str> {
        self.0.text(text)
    }

    /// The bytes of a text in the file.
    pub fn bytes(&self, text: Text) -> &'a [u8] {
        self.0.bytes(text)
    }

    pub fn get(&self, of: DictId, name: usize) -> Option<Value> {
        self.0.get(of, name)
    }

    /// A number that is not negative.
    pub fn number(&self, of: DictId, name: usize) -> Option<u64> {
        match self.get(of, name)? {
            Value::Int(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    pub fn is_true(&self, of: DictId, name: usize) -> bool {
        self.get(of, name) == Some(Value::Bool(true))
    }

    pub fn text_of(&self, of: DictId, name: usize) -> Option<Text> {
        match self.get(of, name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn list(&self, of: DictId, name: usize) -> Option<ListId> {
        match self.get(of, name)? {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    pub fn dict(&self, of: DictId, name: usize) -> Option<DictId> {
        match self.get(of, name)? {
            Value::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    pub fn pool(&self, of: DictId, name: usize) -> Option<PoolId> {
        match self.get(of, name)? {
            Value::Pair(a, b) => Some((a.into(), b.into())),
            _ => None,
        }
    }
}
