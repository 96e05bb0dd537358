//! Parquet: a row for each event, in groups of [`GROUP`], texts by dictionary, compressed with Zstandard.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::events::EventRow;
use super::facts::facts;
use crate::session::Session;

/// Rows of a group, which are buffered until they are written.
const GROUP: usize = 1 << 17;

/// The columns of csv, and the numbers of the event's two stacks. 64-bit numbers are signed, because all readers
/// support those.
const SCHEMA: &str = "message events {
  required int64 seq; required int64 time_ns; required binary kind (UTF8); optional binary level (UTF8);
  optional int64 device; required int64 ptr; required int64 bytes; optional int64 live_bytes;
  optional int64 block_seq; required int64 thread; optional binary api (UTF8); optional binary file (UTF8);
  optional int64 line; optional binary function (UTF8); optional binary node (UTF8);
  optional binary library (UTF8); optional binary phase (UTF8); optional int64 step;
  optional binary range (UTF8); optional binary category (UTF8); optional int64 python_stack; optional int64 native_stack;
}";

/// A column under construction.
enum Column {
    Number(Values<i64>),
    Text(Values<ByteArray>),
}

/// Values, and which of them are missing.
struct Values<T> {
    values: Vec<T>,
    levels: Vec<i16>,
    is_required: bool,
}

impl<T> Values<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

/// Writes rows as they come, one group at a time.
pub struct Parquet<'a> {
    /// Writes to memory, which is flushed to `out` after each group.
    file: SerializedFileWriter<Vec<u8>>,
    out: &'a mut dyn Write,
    columns: Vec<Column>,
    rows: usize,
}

impl<'a> Parquet<'a> {
    /// Begins a file of a capture that was read to its end as `session`.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(session: &Session, out: &'a mut dyn Write) -> Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let exact = session.account.is_exact().to_string();
        let facts = facts(&session.replay.names, &session.header).into_iter();
        let facts = facts.chain([("gpumem.exact".into(), exact)]);
        let facts = facts
            .map(|(key, value)| KeyValue::new(key, value))
            .collect::<Vec<_>>();
        let properties = WriterProperties::builder()
            .set_created_by(concat!("gpumem-analyze ", env!("CARGO_PKG_VERSION")).into())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_key_value_metadata(Some(facts))
            .build();
        let columns = schema
            .get_fields()
            .iter()
            .map(|field| {
                let is_required = !field.is_optional();
                match field.get_physical_type() {
                    parquet::basic::Type::INT64 => Column::Number(Values {
                        values: Vec::new(),
                        levels: Vec::new(),
                        is_required,
                    }),
                    _ => Column::Text(Values {
                        values: Vec::new(),
                        levels: Vec::new(),
                        is_required,
                    }),
                }
            })
            .collect();
        Ok(Self {
            file: SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?,
            out,
            columns,
            rows: 0,
        })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// The writer's.
    pub fn row(&mut self, row: &EventRow<'_>) -> Result<()> {
        let whose = &row.whose;
        let number = |number: u64| Cell::Number(Some(number));
        let cells = [
            number(row.seq),
            number(row.time_ns),
            Cell::Text(Some(row.kind)),
            Cell::Text(row.level),
            Cell::Number(row.device.map(Into::into)),
            number(row.ptr),
            number(row.bytes),
            Cell::Number(row.live_bytes),
            Cell::Number(row.block_seq),
            number(row.thread.into()),
            Cell::Text(row.api),
            Cell::Text(whose.file.as_deref()),
            Cell::Number(whose.line.map(Into::into)),
            Cell::Text(whose.function.as_deref()),
            Cell::Text(whose.node.as_deref()),
            Cell::Text(whose.library.as_deref()),
            Cell::Text(whose.phase),
            Cell::Number(row.step),
            Cell::Text(row.range),
            Cell::Text(row.category),
            Cell::Number(row.stacks.map(|stacks| stacks.py.0.into())),
            Cell::Number(row.stacks.map(|stacks| stacks.native.0.into())),
        ];
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            match (column, cell) {
                (Column::Number(values), Cell::Number(number)) => {
                    values.push(number.map(|number| number as i64));
                }
                (Column::Text(values), Cell::Text(text)) => values.push(text.map(ByteArray::from)),
                (Column::Number(values), Cell::Text(_)) => values.push(None),
                (Column::Text(values), Cell::Number(_)) => values.push(None),
            }
        }
        self.rows += 1;
        if self.rows == GROUP {
            self.group()?;
        }
        Ok(())
    }

    /// Writes the buffered rows.
    fn group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            match column {
                Column::Number(values) => put::<Int64Type>(&mut group, values)?,
                Column::Text(values) => put::<ByteArrayType>(&mut group, values)?,
            }
        }
        group.close()?;
        self.rows = 0;
        self.file.flush()?;
        let bytes = std::mem::take(self.file.inner_mut());
        Ok(self.out.write_all(&bytes)?)
    }

    /// Writes the remaining rows and the file's end.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self) -> Result<()> {
        self.group()?;
        let rest = self.file.into_inner()?;
        Ok(self.out.write_all(&rest)?)
    }
}

/// A row's value in one column.
enum Cell<'a> {
    Number(Option<u64>),
    Text(Option<&'a str>),
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    column: &mut Values<T::T>,
) -> Result<()> {
    if let Some(mut writer) = group.next_column()? {
        let levels = (!column.is_required).then_some(&column.levels[..]);
        writer
            .typed::<T>()
            .write_batch(&column.values, levels, None)?;
        writer.close()?;
    }
    column.values.clear();
    column.levels.clear();
    Ok(())
}
