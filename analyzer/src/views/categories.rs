//! Bytes by category of tensors.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::ByStack;
use super::json::ordinal;
use crate::replay::{Category, Figure, StackKey};

/// Live memory of one category at a point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CategoryRow {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The category: `parameter`, `gradient`, `optimizer state`, `activation`, `input`, `workspace`, `temporary` or
    /// `other`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub category: Category,
    /// Live bytes at the point in time.
    pub bytes: u64,
    /// Number of live blocks at the point in time.
    pub blocks: u64,
}

/// Bytes of one category, as a part of the object that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CategoryBytes {
    /// The category: `parameter`, `gradient`, `optimizer state`, `activation`, `input`, `workspace`, `temporary` or
    /// `other`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub category: Category,
    /// Bytes of the containing object that are in blocks of this category.
    pub bytes: u64,
}

/// Writes a category by its name.
pub(super) fn by_name<S: serde::Serializer>(
    category: &Category,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(category.name())
}

/// Writes a category by its name, if there is one.
pub(super) fn by_name_if_any<S: serde::Serializer>(
    category: &Option<Category>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    category.map(Category::name).serialize(serializer)
}

/// Bytes of each category, by device, the largest first.
pub fn categories(held: &ByStack) -> Vec<CategoryRow> {
    let mut rows = Vec::new();
    for on in &held.devices {
        let first = rows.len();
        let by_category = by_category(on.figures.iter().copied());
        rows.extend(
            by_category
                .into_iter()
                .map(|(category, figure)| CategoryRow {
                    device: ordinal(on.device),
                    category,
                    bytes: figure.bytes,
                    blocks: figure.blocks,
                }),
        );
        rows[first..].sort_by_key(|row| (std::cmp::Reverse(row.bytes), row.category));
    }
    rows
}

/// Figures by category.
pub fn by_category(
    figures: impl Iterator<Item = (StackKey, Figure)>,
) -> BTreeMap<Category, Figure> {
    let mut by_category = BTreeMap::<_, Figure>::new();
    for (stacks, figure) in figures {
        *by_category.entry(stacks.purpose.category()).or_default() += figure;
    }
    by_category
}
