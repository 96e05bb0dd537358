//! Settings of the allocator as a snapshot has them: those of its end.

use super::fields::{self, Fields};
use crate::pickle::{DictId, Value};

/// Settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// As PYTORCH_CUDA_ALLOC_CONF has them.
    pub conf: String,
    /// Whether the text that was given last does not name all that is in force: others were given before.
    pub were_changed: bool,
}

impl Settings {
    /// What `allocator_settings` says.
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
        // Without a limit it is the greatest number of its type.
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
