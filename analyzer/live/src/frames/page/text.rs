//! Lines of text with their emphasis.

/// The emphasis of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None.
    Plain,
    /// A heading.
    Strong,
    /// Less important.
    Faint,
    /// The line that the page is about.
    Marked,
}

/// A text that is read page by page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its subject and point in time.
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

    /// Adds the lines of a text; the first one is a heading.
    pub(crate) fn headed(&mut self, text: &str) {
        let kinds = std::iter::once(Kind::Strong).chain(std::iter::repeat(Kind::Plain));
        self.lines
            .extend(kinds.zip(text.lines().map(str::to_owned)));
    }
}
