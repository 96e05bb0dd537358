//! Writes a table as a Parquet file. The same rows give the same bytes.

use std::cmp::Ordering;
use std::io::Write;
use std::marker::PhantomData;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::rows::SCHEMA;
use crate::table::{Cell, Kind, Table, TableInfo};

/// Rows per row group: the unit that DuckDB assigns to a thread.
pub const GROUP: usize = 122_880;
/// Rows per page: the unit that a reader can skip with statistics.
const PAGE: usize = 20_000;
const LEVEL: i32 = 3;
/// The rate at which a bloom filter reports an absent key as possibly present.
const FALSE_POSITIVES: f64 = 0.01;

/// Writes rows that come in sorted order, a row group at a time.
pub struct Encoder<R: Table, W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: PhantomData<R>,
}

impl<R: Table, W: Write + Send> Encoder<R, W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(out: W) -> Result<Self, ParquetError> {
        let schema = Arc::new(parse_message_type(&message(&R::INFO))?);
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties(&R::INFO)?))?;
        Ok(Self {
            file,
            rows: PhantomData,
        })
    }

    /// Writes the next rows, at most [`GROUP`].
    ///
    /// # Errors
    /// Those of the writer.
    pub fn group(&mut self, rows: &[R]) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for (number, column) in R::INFO.columns.iter().enumerate() {
            let cells = Cells {
                rows,
                number,
                is_optional: column.is_optional,
            };
            match column.kind {
                Kind::Int | Kind::Key | Kind::Time => {
                    cells.put::<Int64Type>(&mut group, |cell| match cell {
                        Cell::Int(value) => Some(value),
                        _ => None,
                    })?;
                }
                Kind::Text => cells.put::<ByteArrayType>(&mut group, |cell| match cell {
                    Cell::Text(value) => Some(ByteArray::from(value)),
                    _ => None,
                })?,
                Kind::Bool => cells.put::<BoolType>(&mut group, |cell| match cell {
                    Cell::Bool(value) => Some(value),
                    _ => None,
                })?,
            }
        }
        group.close()?;
        Ok(())
    }

    /// Writes the file's end.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(self) -> Result<W, ParquetError> {
        self.file.into_inner()
    }
}

/// A column of a group.
struct Cells<'a, R> {
    rows: &'a [R],
    number: usize,
    is_optional: bool,
}

impl<R: Table> Cells<'_, R> {
    fn put<T: DataType>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
        value: impl Fn(Cell<'_>) -> Option<T::T>,
    ) -> Result<(), ParquetError> {
        let cells = self.rows.iter().map(|row| value(row.cell(self.number)));
        let cells: Vec<Option<T::T>> = cells.collect();
        let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
        let values: Vec<T::T> = cells.into_iter().flatten().collect();
        let Some(mut column) = group.next_column()? else {
            return Ok(());
        };
        column
            .typed::<T>()
            .write_batch(&values, self.is_optional.then_some(&levels[..]), None)?;
        column.close()
    }
}

/// Sorts rows and writes them as a file.
///
/// # Errors
/// Those of the writer.
pub fn encode<R: Table>(rows: &mut [R]) -> Result<Vec<u8>, ParquetError> {
    rows.sort_unstable_by(in_order);
    let mut encoder = Encoder::<R, _>::new(Vec::new())?;
    for group in rows.chunks(GROUP) {
        encoder.group(group)?;
    }
    encoder.finish()
}

/// The table's order; equal rows are ordered by their cells.
fn in_order<R: Table>(a: &R, b: &R) -> Ordering {
    a.order().cmp(&b.order()).then_with(|| {
        let columns = 0..R::INFO.columns.len();
        let mut compared = columns.map(|column| a.cell(column).cmp(&b.cell(column)));
        compared
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    })
}

fn message(table: &TableInfo) -> String {
    let columns = table.columns.iter().map(|column| {
        let kind = match column.kind {
            Kind::Int | Kind::Key => ("int64", ""),
            Kind::Time => ("int64", " (TIMESTAMP(MICROS,true))"),
            Kind::Text => ("binary", " (STRING)"),
            Kind::Bool => ("boolean", ""),
        };
        let repetition = if column.is_optional {
            "optional"
        } else {
            "required"
        };
        format!("{repetition} {} {}{};", kind.0, column.name, kind.1)
    });
    let columns: String = columns.collect();
    format!("message {} {{ {columns} }}", table.name)
}

fn properties(table: &TableInfo) -> Result<WriterProperties, ParquetError> {
    let place = |name: &&str| table.columns.iter().position(|column| column.name == *name);
    let sorted_by = table.sorted_by.iter().filter_map(place);
    let sorted_by = sorted_by.map(|column| SortingColumn {
        column_idx: column as i32,
        descending: false,
        nulls_first: true,
    });
    let schema = KeyValue::new("gpumem.schema".to_owned(), SCHEMA.to_string());
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("gpumem-analyze ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_data_page_row_count_limit(PAGE)
        .set_max_row_group_row_count(Some(GROUP))
        .set_key_value_metadata(Some(vec![schema]))
        .set_sorting_columns(Some(sorted_by.collect()));
    for column in table.columns {
        if column.kind == Kind::Key {
            let path = ColumnPath::from(column.name);
            // The filter is folded to the size that its keys need when the group ends.
            properties = properties
                .set_column_bloom_filter_fpp(path.clone(), FALSE_POSITIVES)
                .set_column_bloom_filter_max_ndv(path, GROUP as u64);
        }
    }
    Ok(properties.build())
}
