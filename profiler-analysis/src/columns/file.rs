//! One table's file: columns written and read.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::ColumnsError;
use super::schema::{Column, Kind, SCHEMA_VERSION, Table, VERSION_KEY};

/// Rows of a row group.
const GROUP: usize = 128 << 10;

/// Where the values of a column come from: by row.
pub(super) enum Source<'a> {
    Integers(Box<dyn Fn(usize) -> Option<i64> + 'a>),
    Reals(Box<dyn Fn(usize) -> Option<f64> + 'a>),
    Texts(Box<dyn Fn(usize) -> Option<ByteArray> + 'a>),
}

impl<'a> Source<'a> {
    pub(super) fn integers(of: impl Fn(usize) -> i64 + 'a) -> Self {
        Self::Integers(Box::new(move |row| Some(of(row))))
    }

    /// Those that are 0 are not there.
    pub(super) fn naturals(of: impl Fn(usize) -> u64 + 'a) -> Self {
        Self::Integers(Box::new(move |row| i64::try_from(of(row)).ok().filter(|it| *it != 0)))
    }

    pub(super) fn maybe(of: impl Fn(usize) -> Option<i64> + 'a) -> Self {
        Self::Integers(Box::new(of))
    }

    pub(super) fn texts(of: impl Fn(usize) -> String + 'a) -> Self {
        Self::Texts(Box::new(move |row| Some(ByteArray::from(of(row).into_bytes()))))
    }

    pub(super) fn maybe_texts(of: impl Fn(usize) -> Option<String> + 'a) -> Self {
        Self::Texts(Box::new(move |row| Some(ByteArray::from(of(row)?.into_bytes()))))
    }
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

/// Writes a table of so many rows. `sources` are in the order of its columns.
pub(super) fn write(
    out: &mut dyn Write,
    table: &Table,
    rows: usize,
    sources: &[Source<'_>],
) -> io::Result<()> {
    debug_assert_eq!(sources.len(), table.columns.len(), "{}", table.name);
    let schema = Arc::new(parse_message_type(&table.message()).map_err(failed)?);
    // What is written may be nothing that other threads can have: it gets each group as it is finished.
    let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties(table)));
    let mut writer = writer.map_err(failed)?;
    for from in (0..rows).step_by(GROUP) {
        let mut group = writer.next_row_group().map_err(failed)?;
        let of_group = from..(from + GROUP).min(rows);
        for (column, source) in table.columns.iter().zip(sources) {
            let is_required = column.is_required;
            match source {
                Source::Integers(of) => {
                    write_column::<Int64Type, _>(&mut group, of_group.clone(), is_required, of)
                }
                Source::Reals(of) => {
                    write_column::<DoubleType, _>(&mut group, of_group.clone(), is_required, of)
                }
                Source::Texts(of) => {
                    write_column::<ByteArrayType, _>(&mut group, of_group.clone(), is_required, of)
                }
            }
            .map_err(failed)?;
        }
        group.close().map_err(failed)?;
        writer.flush()?;
        out.write_all(&std::mem::take(writer.inner_mut()))?;
    }
    writer.finish().map_err(failed)?;
    writer.flush()?;
    out.write_all(writer.inner())
}

fn properties(table: &Table) -> WriterProperties {
    let version = KeyValue::new(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string());
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(concat!("mlprof ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![version]));
    for column in table.columns.iter().filter(|column| column.is_delta) {
        let path = || ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path(), false)
            .set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: std::ops::Range<usize>,
    is_required: bool,
    of: &dyn Fn(usize) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let (mut values, mut levels) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let value = of(row);
        if !is_required {
            levels.push(i16::from(value.is_some()));
        }
        values.extend(value);
    }
    let levels = (!is_required).then_some(levels.as_slice());
    column.typed::<T>().write_batch(&values, levels, None)?;
    column.close()
}

/// Rows of a table that were read, one group of them.
pub(super) struct Rows {
    table: Table,
    pub(super) count: usize,
    columns: Vec<Values>,
}

enum Values {
    Integers(Vec<Option<i64>>),
    Reals(Vec<Option<f64>>),
    Texts(Vec<Option<ByteArray>>),
}

/// Reads these columns of a table, group by group. Files of a later version are refused; columns that a
/// file lacks are empty.
pub(super) fn read(
    path: &Path,
    table: &Table,
    wanted: &[&str],
    mut each: impl FnMut(&Rows),
) -> Result<(), ColumnsError> {
    let broken = |error: ParquetError| ColumnsError::Broken {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let file =
        File::open(path).map_err(|error| ColumnsError::Io { path: path.to_owned(), error })?;
    let reader = SerializedFileReader::new(file).map_err(broken)?;
    let metadata = reader.metadata().file_metadata();
    let version = metadata.key_value_metadata().into_iter().flatten();
    let version = version.filter(|it| it.key == VERSION_KEY).find_map(|it| it.value.clone());
    match version.as_deref().and_then(|version| version.parse::<u32>().ok()) {
        Some(version) if version <= SCHEMA_VERSION => {}
        Some(found) => return Err(ColumnsError::Newer { path: path.to_owned(), found }),
        None => return Err(ColumnsError::NotOurs { path: path.to_owned() }),
    }
    let names = metadata.schema_descr().columns().iter().map(|it| it.name().to_owned());
    let names: Vec<String> = names.collect();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(broken)?;
        let count = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut rows = Rows { table: *table, count, columns: Vec::new() };
        for column in table.columns {
            let mut values = match column.kind {
                Kind::Integer => Values::Integers(Vec::new()),
                Kind::Real => Values::Reals(Vec::new()),
                Kind::Text => Values::Texts(Vec::new()),
            };
            let place = names.iter().position(|name| name == column.name);
            if let Some(place) = place.filter(|_| wanted.contains(&column.name)) {
                let from = group.get_column_reader(place).map_err(broken)?;
                values.fill(from, count, column).map_err(broken)?;
            }
            rows.columns.push(values);
        }
        each(&rows);
    }
    Ok(())
}

impl Values {
    fn fill(
        &mut self,
        from: ColumnReader,
        count: usize,
        column: &Column,
    ) -> Result<(), ParquetError> {
        match (self, from) {
            (Self::Integers(into), ColumnReader::Int64ColumnReader(from)) => {
                fill(into, from, count, column)
            }
            (Self::Reals(into), ColumnReader::DoubleColumnReader(from)) => {
                fill(into, from, count, column)
            }
            (Self::Texts(into), ColumnReader::ByteArrayColumnReader(from)) => {
                fill(into, from, count, column)
            }
            _ => Err(ParquetError::General(format!("{} is of another type", column.name))),
        }
    }
}

fn fill<T: DataType>(
    into: &mut Vec<Option<T::T>>,
    mut from: ColumnReaderImpl<T>,
    count: usize,
    column: &Column,
) -> Result<(), ParquetError> {
    let (mut values, mut levels) = (Vec::with_capacity(count), Vec::new());
    let mut read = 0;
    while read < count {
        let (records, ..) =
            from.read_records(count - read, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General(format!("{} has too few rows", column.name)));
        }
        read += records;
    }
    into.reserve(count);
    let mut values = values.into_iter();
    if column.is_required {
        into.extend(values.map(Some));
    } else {
        let is_there = levels.into_iter().map(|level| level > 0);
        into.extend(is_there.map(|is_there| if is_there { values.next() } else { None }));
    }
    Ok(())
}

impl Rows {
    fn column(&self, name: &str) -> Option<&Values> {
        self.columns.get(self.table.place(name)?)
    }

    /// A number; 0 where there is none.
    pub(super) fn integer<'a>(&'a self, name: &str) -> impl Fn(usize) -> i64 + use<'a> {
        let of = self.maybe(name);
        move |row| of(row).unwrap_or(0)
    }

    /// A number, where there is one.
    pub(super) fn maybe<'a>(&'a self, name: &str) -> impl Fn(usize) -> Option<i64> + use<'a> {
        let values: &[Option<i64>] = match self.column(name) {
            Some(Values::Integers(values)) => values,
            _ => &[],
        };
        move |row| values.get(row).copied().flatten()
    }

    /// A number with a fraction; 0 where there is none.
    pub(super) fn real<'a>(&'a self, name: &str) -> impl Fn(usize) -> f64 + use<'a> {
        let values: &[Option<f64>] = match self.column(name) {
            Some(Values::Reals(values)) => values,
            _ => &[],
        };
        move |row| values.get(row).copied().flatten().unwrap_or(0.0)
    }

    /// A text, where there is one.
    pub(super) fn text<'a>(&'a self, name: &str) -> impl Fn(usize) -> Option<&'a str> + use<'a> {
        let values: &[Option<ByteArray>] = match self.column(name) {
            Some(Values::Texts(values)) => values,
            _ => &[],
        };
        move |row| values.get(row)?.as_ref()?.as_utf8().ok()
    }
}
