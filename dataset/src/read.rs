//! Reads rows of Parquet files that any engine wrote.

use std::path::{Path, PathBuf};
use std::{array, fs, io};

use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArrayType, DataType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};

use crate::folder::Error;

/// The Parquet files in a folder, in the order of their names.
///
/// # Errors
/// Those of the system.
pub fn parquet_files(folder: &Path) -> std::result::Result<Vec<PathBuf>, Error> {
    let list = || {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    };
    let list: io::Result<Vec<PathBuf>> = list();
    let mut files = list.map_err(|error| Error::new(folder, error))?;
    files.retain(|file| file.extension().is_some_and(|of| of == "parquet"));
    files.sort();
    Ok(files)
}

/// Rows that are decoded at once: they are all that is in memory.
const AT_ONCE: usize = 1 << 13;

/// Reads the columns with these names, of 64-bit numbers and of texts, and calls `then` with each row.
///
/// # Errors
/// Those of the file, and of `then`: a file that is not Parquet, a column that does not exist or has another type.
pub fn each_row<const N: usize, const T: usize>(
    path: &Path,
    numbers: [&str; N],
    texts: [&str; T],
    mut then: impl FnMut([Option<i64>; N], [Option<&[u8]>; T]) -> io::Result<()>,
) -> std::result::Result<(), Error> {
    let mut read = || -> io::Result<()> {
        let file = SerializedFileReader::new(gpumem_files::read::open(path)?)?;
        for group in 0..file.num_row_groups() {
            let group = file.get_row_group(group)?;
            let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            let mut numbers = columns::<Int64Type, N>(&*group, numbers)?;
            let mut texts = columns::<ByteArrayType, T>(&*group, texts)?;
            while left > 0 {
                let rows = left.min(AT_ONCE);
                left -= rows;
                for column in &mut numbers {
                    column.read(rows)?;
                }
                for column in &mut texts {
                    column.read(rows)?;
                }
                for row in 0..rows {
                    then(
                        array::from_fn(|of| numbers[of].cells.get(row).copied().flatten()),
                        array::from_fn(|of| Some(texts[of].cells.get(row)?.as_ref()?.data())),
                    )?;
                }
            }
        }
        Ok(())
    };
    read().map_err(|error| Error::new(path, error))
}

/// A column, and its cells in the rows that are decoded.
struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    levels: Vec<i16>,
    values: Vec<T::T>,
    cells: Vec<Option<T::T>>,
}

impl<T: DataType> Column<T> {
    fn read(&mut self, rows: usize) -> Result<()> {
        self.levels.clear();
        self.cells.clear();
        let levels = Some(&mut self.levels);
        self.reader
            .read_records(rows, levels, None, &mut self.values)?;
        let mut values = self.values.drain(..);
        match self.levels.is_empty() {
            // It is never null.
            true => self.cells.extend(values.map(Some)),
            false => {
                let cells = self.levels.iter().map(|level| match level {
                    0 => None,
                    _ => values.next(),
                });
                self.cells.extend(cells);
            }
        }
        Ok(())
    }
}

fn columns<T: DataType, const N: usize>(
    group: &dyn RowGroupReader,
    names: [&str; N],
) -> Result<Vec<Column<T>>> {
    let all = group.metadata().columns();
    let one = |name: &str| {
        let is_it = |of: &ColumnChunkMetaData| {
            let is_flat = of.column_descr().max_rep_level() == 0;
            is_flat
                && of.column_path().string() == name
                && of.column_type() == T::get_physical_type()
        };
        let at = all.iter().position(is_it).ok_or_else(|| {
            let kind = T::get_physical_type();
            ParquetError::General(format!("it has no column {name} of {kind}"))
        })?;
        Ok(Column {
            reader: get_typed_column_reader(group.get_column_reader(at)?),
            levels: Vec::new(),
            values: Vec::new(),
            cells: Vec::new(),
        })
    };
    names.into_iter().map(one).collect()
}
