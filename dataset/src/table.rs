//! Tables: columns with names, types and meanings, and rows with a cell for each.

use std::collections::HashSet;
use std::sync::Arc;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// INT64.
    Int,
    /// INT64, a hash of content ([`crate::Key`]): has a bloom filter.
    Key,
    /// INT64, microseconds since 1970-01-01 UTC.
    Time,
    /// UTF-8.
    Text,
    /// BOOLEAN.
    Bool,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether it may be null.
    pub is_optional: bool,
    /// Its meaning: the text of `docs/dataset.md`.
    pub doc: &'static str,
}

/// A table, without its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name, as in `table=…`.
    pub name: &'static str,
    /// The meaning of its rows: the text of `docs/dataset.md`.
    pub doc: &'static str,
    /// Its columns, in their order.
    pub columns: &'static [Column],
    /// Names of the columns by which rows of a file are sorted.
    pub sorted_by: &'static [&'static str],
}

/// A row's value in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell<'a> {
    /// Null.
    Null,
    /// A value of [`Kind::Int`], [`Kind::Key`] or [`Kind::Time`].
    Int(i64),
    /// A value of [`Kind::Text`].
    Text(&'a str),
    /// A value of [`Kind::Bool`].
    Bool(bool),
}

/// A row of a table.
pub trait Table {
    /// Its table.
    const INFO: TableInfo;

    /// The value in the column with this number.
    fn cell(&self, column: usize) -> Cell<'_>;

    /// The order of rows in a file.
    fn order(&self) -> impl Ord + '_;

    /// Replaces each text by the equal one in `texts`, so that equal texts are in memory once.
    fn share(&mut self, texts: &mut Texts);
}

/// Interned texts.
#[derive(Debug, Default)]
pub struct Texts(HashSet<Arc<str>>);

/// A value of a row as a [`Cell`].
pub(crate) trait AsCell {
    fn as_cell(&self) -> Cell<'_>;

    fn share(&mut self, _: &mut Texts) {}
}

impl AsCell for i64 {
    fn as_cell(&self) -> Cell<'_> {
        Cell::Int(*self)
    }
}

impl AsCell for crate::Key {
    fn as_cell(&self) -> Cell<'_> {
        Cell::Int(self.0)
    }
}

impl AsCell for bool {
    fn as_cell(&self) -> Cell<'_> {
        Cell::Bool(*self)
    }
}

impl AsCell for Arc<str> {
    fn as_cell(&self) -> Cell<'_> {
        Cell::Text(self)
    }

    fn share(&mut self, texts: &mut Texts) {
        match texts.0.get(&**self) {
            Some(text) => *self = Arc::clone(text),
            None => {
                texts.0.insert(Arc::clone(self));
            }
        }
    }
}

impl<T: AsCell> AsCell for Option<T> {
    fn as_cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Null, AsCell::as_cell)
    }

    fn share(&mut self, texts: &mut Texts) {
        if let Some(value) = self {
            value.share(texts);
        }
    }
}

/// Defines a table's row. The comment of a field is its column's documentation.
macro_rules! table {
    (
        $(#[doc = $doc:literal])*
        $row:ident in $name:literal, sorted by ($($by:ident),*) {
            $( $(#[doc = $about:literal])* $field:ident: $kind:tt, )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $row { $( $(#[doc = $about])* pub $field: table!(@type $kind), )* }

        impl $crate::table::Table for $row {
            const INFO: $crate::table::TableInfo = $crate::table::TableInfo {
                name: $name,
                doc: concat!($($doc),*),
                columns: &[ $( $crate::table::Column {
                    name: stringify!($field),
                    kind: table!(@kind $kind),
                    is_optional: table!(@optional $kind),
                    doc: concat!($($about),*),
                } ),* ],
                sorted_by: &[$(stringify!($by)),*],
            };

            fn cell(&self, column: usize) -> $crate::table::Cell<'_> {
                use $crate::table::AsCell;
                let mut at = 0;
                $(
                    if column == at {
                        return self.$field.as_cell();
                    }
                    at += 1;
                )*
                let _ = at;
                $crate::table::Cell::Null
            }

            fn order(&self) -> impl Ord + '_ {
                use $crate::table::AsCell;
                [$(self.$by.as_cell()),*]
            }

            fn share(&mut self, texts: &mut $crate::table::Texts) {
                use $crate::table::AsCell;
                $( self.$field.share(texts); )*
            }
        }
    };
    (@type int) => { i64 };
    (@type time) => { i64 };
    (@type key) => { $crate::Key };
    (@type text) => { std::sync::Arc<str> };
    (@type bool) => { bool };
    (@type [$kind:tt]) => { Option<table!(@type $kind)> };
    (@kind int) => { $crate::table::Kind::Int };
    (@kind time) => { $crate::table::Kind::Time };
    (@kind key) => { $crate::table::Kind::Key };
    (@kind text) => { $crate::table::Kind::Text };
    (@kind bool) => { $crate::table::Kind::Bool };
    (@kind [$kind:tt]) => { table!(@kind $kind) };
    (@optional [$kind:tt]) => { true };
    (@optional $kind:tt) => { false };
}
pub(crate) use table;
