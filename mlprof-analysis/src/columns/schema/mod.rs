//! Schema of tables and columns.

mod tables;

pub use self::tables::*;

/// Version of the schema. It increases when a column changes or is removed. Each file contains it
/// as `mlprof.schema` in its metadata.
pub const SCHEMA_VERSION: u32 = 2;
/// Metadata key of the schema version.
pub(super) const VERSION_KEY: &str = "mlprof.schema";

/// Type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Signed 64-bit integers.
    Integer,
    /// 64-bit floating-point numbers.
    Real,
    /// UTF-8 strings.
    Text,
}

/// Encoding of a column before compression. All query engines can read every encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    /// A dictionary of distinct values, for columns with few of them.
    Dictionary,
    /// Differences between adjacent values.
    Delta,
    /// Plain values, for numbers that repeat in patterns.
    Plain,
    /// Durations. They use a dictionary if there are few distinct values, as with recorders of
    /// microsecond resolution. Otherwise they are plain values with fast compression, because a
    /// search for patterns would cost more than it saves.
    Noise,
}

/// Column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Name of the column.
    pub name: &'static str,
    /// Type of its values.
    pub kind: Kind,
    /// `true` if every row has a value.
    pub is_required: bool,
    /// Encoding of its values.
    pub(super) storage: Storage,
    /// Description of the column.
    pub about: &'static str,
}

/// Table stored as a folder of files, one per rank and cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Name of the table and its folder.
    pub name: &'static str,
    /// Description of the rows.
    pub about: &'static str,
    /// Columns of the table.
    pub columns: &'static [Column],
}

const fn column(name: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, kind, is_required: true, storage: Storage::Dictionary, about }
}

const fn integer(name: &'static str, about: &'static str) -> Column {
    column(name, Kind::Integer, about)
}

const fn text(name: &'static str, about: &'static str) -> Column {
    column(name, Kind::Text, about)
}

impl Column {
    const fn optional(self) -> Self {
        Self { is_required: false, ..self }
    }

    const fn delta(self) -> Self {
        Self { storage: Storage::Delta, ..self }
    }

    const fn noise(self) -> Self {
        Self { storage: Storage::Noise, ..self }
    }

    const fn plain(self) -> Self {
        Self { storage: Storage::Plain, ..self }
    }
}

/// Returns the schema as text.
pub fn text_of_schema() -> String {
    let mut text = format!(
        "Traces as Parquet, version {SCHEMA_VERSION}. FOLDER/<table>/<rank>-<cycle>.parquet\n"
    );
    for table in TABLES {
        text += &format!("\n{}: {}\n", table.name, table.about);
        for column in table.columns {
            let kind = match column.kind {
                Kind::Integer => "INT64",
                Kind::Real => "DOUBLE",
                Kind::Text => "UTF8",
            };
            let null = if column.is_required { "" } else { "?" };
            text +=
                &format!("  {:<18}{:<8}{}\n", column.name, format!("{kind}{null}"), column.about);
        }
    }
    text += "\n?: may be NULL. All times are nanoseconds.\n";
    text
}

impl Table {
    /// Returns the index of a column.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the schema in Parquet's message syntax.
    pub(super) fn message(&self) -> String {
        let columns = self.columns.iter().map(|column| {
            let repetition = if column.is_required { "required" } else { "optional" };
            let (kind, logical) = match column.kind {
                Kind::Integer => ("int64", ""),
                Kind::Real => ("double", ""),
                Kind::Text => ("binary", " (utf8)"),
            };
            format!("{repetition} {kind} {}{logical};", column.name)
        });
        format!("message {} {{ {} }}", self.name, columns.collect::<Vec<_>>().join(" "))
    }
}
