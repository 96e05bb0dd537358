//! Settings of the allocator in a snapshot, as of its end.

use super::fields::{self, Fields};
use crate::pickle::{DictId, Value};

/// Settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// In the form of PYTORCH_CUDA_ALLOC_CONF.
    pub conf: String,
    /// Whether the latest text lacks settings that are in effect because others were set before.
    pub were_changed: bool,
}

impl Settings {
    /// From `allocator_settings`.
    pub fn of(fields: &Fields<'_>, settings: DictId) -> Self {
        let given = fields.text_of(settings, fields::CONF);
        let given = given
            .map(|text| fields.text(text).into_owned())
            .unwrap_or_default();
        let mut conf = given.clone();
        let mut put = |name: &str, value: String| {
            if !given.contains(name) {
                let comma = if conf.is_empty() { "" } else { "," };
                conf = format!("{conf}{comma}{name}:{value}");
            }
        };
        if fields.is_true(settings, fields::EXPANDABLE_SEGMENTS) {
            put("expandable_segments", "True".into());
        }
        // Without a limit, it is the maximum of its type.
        let limit = fields.number(settings, fields::MAX_SPLIT_SIZE);
        if let Some(limit) = limit.filter(|limit| *limit < 1 << 62) {
            put("max_split_size_mb", (limit >> 20).to_string());
        }
        match fields.get(settings, fields::GARBAGE_COLLECTION_THRESHOLD) {
            Some(Value::Float(threshold)) if threshold > 0.0 => {
                put("garbage_collection_threshold", threshold.to_string());
            }
            _ => {}
        }
        Self {
            were_changed: conf != given,
            conf,
        }
    }
}
