//! The history of peaks as Parquet: a row for each workload and commit.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::RowAccessor as _;
use parquet::schema::parser::parse_message_type;

use crate::views::ci::PastPeak;

/// 64-bit numbers are signed, because all readers support those.
const SCHEMA: &str = "message past_peaks {
  required binary commit (UTF8); required binary workload (UTF8); optional int64 device; required binary level (UTF8);
  required int64 date (TIMESTAMP(MICROS,true)); required int64 peak_bytes; required boolean exact;
}";

/// A file of these rows.
///
/// # Errors
/// The writer's.
pub fn past_peaks_parquet(rows: &[PastPeak]) -> Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_created_by(concat!("gpumem-analyze ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    let text = |of: fn(&PastPeak) -> &str| -> Vec<ByteArray> {
        rows.iter().map(|row| ByteArray::from(of(row))).collect()
    };
    let number = |of: fn(&PastPeak) -> i64| rows.iter().map(of).collect::<Vec<i64>>();
    let devices: Vec<i64> = rows
        .iter()
        .filter_map(|row| row.device.map(i64::from))
        .collect();
    let has_device: Vec<i16> = rows
        .iter()
        .map(|row| i16::from(row.device.is_some()))
        .collect();
    let exact: Vec<bool> = rows.iter().map(|row| row.exact).collect();
    column::<ByteArrayType>(&mut group, &text(|row| &row.commit), None)?;
    column::<ByteArrayType>(&mut group, &text(|row| &row.workload), None)?;
    column::<Int64Type>(&mut group, &devices, Some(&has_device))?;
    column::<ByteArrayType>(&mut group, &text(|row| &row.level), None)?;
    column::<Int64Type>(
        &mut group,
        &number(|row| row.seconds.saturating_mul(1_000_000)),
        None,
    )?;
    column::<Int64Type>(
        &mut group,
        &number(|row| i64::try_from(row.peak_bytes).unwrap_or(i64::MAX)),
        None,
    )?;
    column::<BoolType>(&mut group, &exact, None)?;
    group.close()?;
    file.into_inner()
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    if let Some(mut writer) = group.next_column()? {
        writer.typed::<T>().write_batch(values, levels, None)?;
        writer.close()?;
    }
    Ok(())
}

/// The rows of a file.
///
/// # Errors
/// The file is damaged, or is not a history of peaks.
pub fn read_past_peaks(contents: Vec<u8>) -> Result<Vec<PastPeak>> {
    let file = SerializedFileReader::new(Bytes::from(contents))?;
    let expected = parse_message_type(SCHEMA)?;
    let found = file.metadata().file_metadata().schema();
    let names = |of: &parquet::schema::types::Type| {
        let fields = of.get_fields().iter();
        fields
            .map(|field| (field.name().to_owned(), field.get_physical_type()))
            .collect::<Vec<_>>()
    };
    if found.get_fields().iter().any(|field| field.is_group()) || names(found) != names(&expected) {
        return Err(ParquetError::General(
            "its columns are not those of a history".into(),
        ));
    }
    let rows = file.get_row_iter(None)?.map(|row| {
        let row = row?;
        Ok(PastPeak {
            commit: row.get_string(0)?.clone(),
            workload: row.get_string(1)?.clone(),
            device: row
                .get_long(2)
                .ok()
                .and_then(|device| u8::try_from(device).ok()),
            level: row.get_string(3)?.clone(),
            seconds: row.get_timestamp_micros(4)?.div_euclid(1_000_000),
            peak_bytes: u64::try_from(row.get_long(5)?).unwrap_or(0),
            exact: row.get_bool(6)?,
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let row = PastPeak {
            commit: "0123abcd".into(),
            workload: "sub/traïn".into(),
            device: None,
            level: "driver".into(),
            seconds: -5,
            peak_bytes: 1 << 40,
            exact: false,
        };
        let rows = [
            row.clone(),
            PastPeak {
                device: Some(3),
                seconds: 1_798_675_200,
                exact: true,
                ..row
            },
        ];
        let file = past_peaks_parquet(&rows).expect("a file");
        assert_eq!(read_past_peaks(file.clone()).expect("rows"), rows);
        assert_eq!(
            read_past_peaks(past_peaks_parquet(&[]).expect("a file")).expect("none"),
            []
        );
        for cut in [0, 4, file.len() / 2, file.len() - 1] {
            assert!(read_past_peaks(file[..cut].to_vec()).is_err(), "{cut}");
        }
    }
}
