//! A frame of a flamegraph, and the memory of stacks.

use std::cmp::Ordering;
use std::ops::{AddAssign, Deref};
use std::sync::Arc;

use crate::replay::{Category, Figure};
use crate::stacks::FrameKind;

/// A frame of a flamegraph.
#[derive(Clone, Debug)]
pub struct FlameFrame {
    /// The label.
    pub label: String,
    /// The kind.
    pub kind: FrameKind,
    /// The text of its line of source; empty if it is not available.
    pub text: String,
}

/// A frame that stacks share. Frames with the same label and kind are equal, because a line's text may be available
/// in one capture and not in another.
#[derive(Clone, Debug)]
pub struct SharedFrame(Arc<FlameFrame>);

impl SharedFrame {
    /// A frame.
    pub fn new(label: &str, kind: FrameKind, text: &str) -> Self {
        Self(Arc::new(FlameFrame {
            label: label.to_owned(),
            kind,
            text: text.to_owned(),
        }))
    }
}

impl Deref for SharedFrame {
    type Target = FlameFrame;

    fn deref(&self) -> &FlameFrame {
        &self.0
    }
}

impl Ord for SharedFrame {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        let by = |frame: &Self| frame.kind;
        let labels = self.label.cmp(&other.label);
        labels.then_with(|| by(self).cmp(&by(other)))
    }
}

impl PartialOrd for SharedFrame {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SharedFrame {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SharedFrame {}

/// The memory of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlameHeld {
    /// Bytes.
    pub bytes: u64,
    /// Blocks; 0 if their number is not known.
    pub blocks: u64,
    /// Bytes of each category, in the order of [`Category::ALL`].
    pub categories: [u64; Category::ALL.len()],
}

impl FlameHeld {
    pub(super) fn of(figure: Figure, category: Category) -> Self {
        let mut held = Self {
            bytes: figure.bytes,
            blocks: figure.blocks,
            ..Self::default()
        };
        let all = Category::ALL.iter().zip(&mut held.categories);
        for (_, bytes) in all.filter(|(of, _)| **of == category) {
            *bytes = figure.bytes;
        }
        held
    }

    /// The category with most of the bytes.
    pub fn category(&self) -> Category {
        let of_none = self.bytes.saturating_sub(self.categories.iter().sum());
        let all = Category::ALL.into_iter().zip(self.categories);
        let all = all.chain([(Category::None, of_none)]);
        let most = all.fold((Category::None, 0), |most, of| match of.1 > most.1 {
            true => of,
            false => most,
        });
        most.0
    }
}

impl AddAssign for FlameHeld {
    fn add_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.blocks = self.blocks.saturating_add(other.blocks);
        for (sum, bytes) in self.categories.iter_mut().zip(other.categories) {
            *sum = sum.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_equal_by_label_and_kind() {
        let frame = |label, kind, text| SharedFrame::new(label, kind, text);
        let one = frame("f (a.py:1)", FrameKind::Python, "x = 1");
        assert_eq!(one, frame("f (a.py:1)", FrameKind::Python, ""));
        assert_ne!(one, frame("f (a.py:1)", FrameKind::Library, "x = 1"));
        assert!(one < frame("g", FrameKind::Python, ""));
    }

    #[test]
    fn the_category_is_the_one_with_most_bytes() {
        let of = |bytes, category| FlameHeld::of(Figure { bytes, blocks: 1 }, category);
        let mut held = of(5, Category::Gradient);
        held += of(3, Category::Activation);
        assert_eq!(held.category(), Category::Gradient);
        held += of(3, Category::Activation);
        assert_eq!(
            (held.category(), held.bytes, held.blocks),
            (Category::Activation, 11, 3)
        );
        held += of(7, Category::None);
        assert_eq!(held.category(), Category::None);
    }
}
