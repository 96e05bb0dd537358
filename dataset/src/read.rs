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
            let mut numbers = columns::<Int64Type>(&*group, &numbers)?;
            let mut texts = columns::<ByteArrayType>(&*group, &texts)?;
            while left > 0 {
                let rows = left.min(AT_ONCE);
                left -= rows;
                let read: Result<Vec<_>> = numbers.iter_mut().map(|of| cells(of, rows)).collect();
                let numbers = read?;
                let read: Result<Vec<_>> = texts.iter_mut().map(|of| cells(of, rows)).collect();
                let texts = read?;
                for row in 0..rows {
                    then(
                        array::from_fn(|of| numbers[of].get(row).copied().flatten()),
                        array::from_fn(|of| Some(texts[of].get(row)?.as_ref()?.data())),
                    )?;
                }
            }
        }
        Ok(())
    };
    read().map_err(|error| Error::new(path, error))
}

fn cells<T: DataType>(from: &mut ColumnReaderImpl<T>, rows: usize) -> Result<Vec<Option<T::T>>> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    from.read_records(rows, Some(&mut levels), None, &mut values)?;
    let mut values = values.into_iter();
    // Without levels no cell is null.
    levels.resize(levels.len().max(values.len()), 1);
    let cells = levels.into_iter().map(|level| match level {
        0 => None,
        _ => values.next(),
    });
    Ok(cells.collect())
}

fn columns<T: DataType>(
    group: &dyn RowGroupReader,
    names: &[&str],
) -> Result<Vec<ColumnReaderImpl<T>>> {
    let all = group.metadata().columns();
    let kind = T::get_physical_type();
    let one = |name: &&str| {
        let is_it = |of: &ColumnChunkMetaData| {
            let is_flat = of.column_descr().max_rep_level() == 0;
            is_flat && of.column_path().string() == *name && of.column_type() == kind
        };
        let none = || ParquetError::General(format!("it has no column {name} of {kind}"));
        let at = all.iter().position(is_it).ok_or_else(none)?;
        Ok(get_typed_column_reader(group.get_column_reader(at)?))
    };
    names.iter().map(one).collect()
}
