//! Reader and writer for the file of one table.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use mlprof_events::files::open_regular;
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
use rustc_hash::{FxHashMap, FxHashSet};

use super::ColumnsError;
use super::schema::{Column, Kind, SCHEMA_VERSION, Storage, Table, VERSION_KEY};

/// Number of rows in a row group.
const GROUP: usize = 128 << 10;

/// Source of a column's values, called with the row number.
pub(super) enum Source<'a> {
    Integers(Box<dyn Fn(usize) -> Option<i64> + 'a>),
    Reals(Box<dyn Fn(usize) -> Option<f64> + 'a>),
    Texts(Box<dyn Fn(usize) -> Option<ByteArray> + 'a>),
}

impl<'a> Source<'a> {
    pub(super) fn integers(of: impl Fn(usize) -> i64 + 'a) -> Self {
        Self::Integers(Box::new(move |row| Some(of(row))))
    }

    /// Creates a source in which 0 becomes NULL.
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

/// Writes a table with `rows` rows. `sources` are in the order of its columns.
pub(super) fn write(
    out: &mut dyn Write,
    table: &Table,
    rows: usize,
    sources: &[Source<'_>],
) -> io::Result<()> {
    debug_assert_eq!(sources.len(), table.columns.len(), "{}", table.name);
    let schema = Arc::new(parse_message_type(&table.message()).map_err(failed)?);
    // The Parquet writer requires a `Send` output, which `out` may not be. It writes each row group
    // to a buffer, which is then copied to `out`.
    let writer =
        SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties(table, rows, sources)));
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

/// Minimum average number of rows per distinct value for which a dictionary is worthwhile.
const ROWS_OF_A_VALUE: usize = 4;

/// Returns `true` if a column has few distinct values, judged by its first row group.
fn has_few(source: &Source<'_>, rows: usize) -> bool {
    let Source::Integers(of) = source else { return false };
    let rows = rows.min(GROUP);
    let most = rows / ROWS_OF_A_VALUE;
    let mut seen = FxHashSet::default();
    (0..rows).all(|row| {
        seen.insert(of(row));
        seen.len() <= most
    })
}

/// Zstd compression levels. A thorough search is cheap for the few bytes of deltas and dictionary
/// indices. For plain numbers it would cost more than all other work.
const THOROUGH: i32 = 9;
const USUAL: i32 = 3;
const HASTY: i32 = 1;

fn properties(table: &Table, rows: usize, sources: &[Source<'_>]) -> WriterProperties {
    let version = KeyValue::new(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string());
    let zstd = |level| Compression::ZSTD(ZstdLevel::try_new(level).unwrap_or_default());
    let mut properties = WriterProperties::builder()
        .set_compression(zstd(THOROUGH))
        .set_created_by(concat!("mlprof ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![version]));
    for (column, source) in table.columns.iter().zip(sources) {
        let (encoding, level) = match column.storage {
            Storage::Dictionary => continue,
            Storage::Noise if has_few(source, rows) => continue,
            Storage::Delta => (Encoding::DELTA_BINARY_PACKED, THOROUGH),
            Storage::Plain => (Encoding::PLAIN, USUAL),
            Storage::Noise => (Encoding::PLAIN, HASTY),
        };
        let path = || ColumnPath::from(column.name);
        properties = properties.set_column_compression(path(), zstd(level));
        properties = properties
            .set_column_dictionary_enabled(path(), false)
            .set_column_encoding(path(), encoding);
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

/// Row group of a table that was read.
pub(super) struct Rows {
    table: Table,
    pub(super) count: usize,
    /// Schema version of the file.
    pub(super) version: u32,
    columns: Vec<Values>,
}

/// Values of a column, one per row. Empty if no row has a value.
struct Filled<T> {
    values: Vec<T>,
    /// For each row, `true` if it has a value. Empty if all rows have one, or if none has.
    is_there: Vec<bool>,
}

enum Values {
    Integers(Filled<i64>),
    Reals(Filled<f64>),
    Texts(Filled<ByteArray>),
    NotRead,
}

/// Reads the `wanted` columns of a table, one row group at a time. Files of a later version are
/// rejected, and columns missing in the file are empty.
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
        open_regular(path).map_err(|error| ColumnsError::Io { path: path.to_owned(), error })?;
    let reader = SerializedFileReader::new(file).map_err(broken)?;
    let metadata = reader.metadata().file_metadata();
    let version = metadata.key_value_metadata().into_iter().flatten();
    let version = version.filter(|it| it.key == VERSION_KEY).find_map(|it| it.value.clone());
    let version = match version.as_deref().and_then(|version| version.parse::<u32>().ok()) {
        Some(version) if version <= SCHEMA_VERSION => version,
        Some(found) => return Err(ColumnsError::Newer { path: path.to_owned(), found }),
        None => return Err(ColumnsError::NotOurs { path: path.to_owned() }),
    };
    let names = metadata.schema_descr().columns().iter().map(|it| it.name().to_owned());
    let names: Vec<String> = names.collect();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(broken)?;
        let count = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut rows = Rows { table: *table, count, version, columns: Vec::new() };
        for column in table.columns {
            let place = names.iter().position(|name| name == column.name);
            let values = match place.filter(|_| wanted.contains(&column.name)) {
                Some(place) => {
                    let from = group.get_column_reader(place).map_err(broken)?;
                    Values::read(from, count, column).map_err(broken)?
                }
                None => Values::NotRead,
            };
            rows.columns.push(values);
        }
        each(&rows);
    }
    Ok(())
}

impl Values {
    fn read(from: ColumnReader, count: usize, column: &Column) -> Result<Self, ParquetError> {
        match (column.kind, from) {
            (Kind::Integer, ColumnReader::Int64ColumnReader(from)) => {
                read_column(from, count, column).map(Self::Integers)
            }
            (Kind::Real, ColumnReader::DoubleColumnReader(from)) => {
                read_column(from, count, column).map(Self::Reals)
            }
            (Kind::Text, ColumnReader::ByteArrayColumnReader(from)) => {
                read_column(from, count, column).map(Self::Texts)
            }
            _ => {
                Err(ParquetError::General(format!("column {} has an unexpected type", column.name)))
            }
        }
    }
}

fn read_column<T: DataType>(
    mut from: ColumnReaderImpl<T>,
    count: usize,
    column: &Column,
) -> Result<Filled<T::T>, ParquetError> {
    let (mut values, mut levels) = (Vec::with_capacity(count), Vec::new());
    let mut read = 0;
    while read < count {
        let levels = (!column.is_required).then_some(&mut levels);
        let (records, ..) = from.read_records(count - read, levels, None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General(format!("column {} has too few rows", column.name)));
        }
        read += records;
    }
    if values.is_empty() || values.len() == count {
        return Ok(Filled { values, is_there: Vec::new() });
    }
    let is_there: Vec<bool> = levels.into_iter().map(|level| level > 0).collect();
    let mut values = values.into_iter();
    let spread = is_there.iter().map(|is_there| match is_there {
        true => values.next().unwrap_or_default(),
        false => T::T::default(),
    });
    let values = spread.collect();
    Ok(Filled { values, is_there })
}

impl<T> Filled<T> {
    fn get(&self, row: usize) -> Option<&T> {
        match self.is_there.get(row) {
            Some(false) => None,
            _ => self.values.get(row),
        }
    }
}

impl Rows {
    fn column(&self, name: &str) -> &Values {
        self.table.place(name).and_then(|place| self.columns.get(place)).unwrap_or(&Values::NotRead)
    }

    /// Returns a column of integers, with 0 for missing values.
    pub(super) fn integer<'a>(&'a self, name: &str) -> impl Fn(usize) -> i64 + use<'a> {
        let of = self.maybe(name);
        move |row| of(row).unwrap_or(0)
    }

    /// Returns a column of optional integers.
    pub(super) fn maybe<'a>(&'a self, name: &str) -> impl Fn(usize) -> Option<i64> + use<'a> {
        let column = match self.column(name) {
            Values::Integers(column) => Some(column),
            _ => None,
        };
        move |row| column?.get(row).copied()
    }

    /// Returns a column of floating-point numbers, with 0 for missing values.
    pub(super) fn real<'a>(&'a self, name: &str) -> impl Fn(usize) -> f64 + use<'a> {
        let column = match self.column(name) {
            Values::Reals(column) => Some(column),
            _ => None,
        };
        move |row| column.and_then(|column| column.get(row)).copied().unwrap_or(0.0)
    }

    /// Returns a column of optional strings.
    pub(super) fn text<'a>(&'a self, name: &str) -> impl Fn(usize) -> Option<&'a str> + use<'a> {
        let column = match self.column(name) {
            Values::Texts(column) => Some(column),
            _ => None,
        };
        move |row| column?.get(row)?.as_utf8().ok()
    }

    /// Returns a column of values computed from strings, with `none` for missing strings. Each
    /// distinct string is converted once, because equal strings of a dictionary share their bytes.
    pub(super) fn map<'a, T: Copy + 'a>(
        &'a self,
        name: &str,
        none: T,
    ) -> impl FnMut(usize, &mut dyn FnMut(&str) -> T) -> T + use<'a, T> {
        let column = match self.column(name) {
            Values::Texts(column) => Some(column),
            _ => None,
        };
        let mut known: FxHashMap<(usize, usize), T> = FxHashMap::default();
        let mut last = ((0, usize::MAX), none);
        move |row, make| {
            let Some(text) = column.and_then(|column| column.get(row)) else { return none };
            let place = (text.data().as_ptr().addr(), text.data().len());
            if last.0 != place {
                let made = known.entry(place);
                let made = *made.or_insert_with(|| make(text.as_utf8().unwrap_or_default()));
                last = (place, made);
            }
            last.1
        }
    }
}
