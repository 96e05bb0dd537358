//! Lines of text that are shown page by page.

/// How a line stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not at all.
    Plain,
    /// A heading.
    Strong,
    /// Of less interest.
    Faint,
    /// The line that all is about.
    Marked,
}

/// A text that is read page by page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What it is of, and of when.
    pub title: String,
    /// Its lines.
    pub lines: Vec<(Kind, String)>,
}

impl Page {
    pub(crate) fn of(title: String) -> Self {
        Self {
            title,
            lines: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, kind: Kind, text: impl Into<String>) {
        self.lines.push((kind, text.into()));
    }

    pub(crate) fn blank(&mut self) {
        if !self.lines.is_empty() {
            self.add(Kind::Plain, "");
        }
    }

    /// Adds the lines of a text whose first is a heading.
    pub(crate) fn headed(&mut self, text: &str) {
        let kinds = std::iter::once(Kind::Strong).chain(std::iter::repeat(Kind::Plain));
        self.lines
            .extend(kinds.zip(text.lines().map(str::to_owned)));
    }
}
