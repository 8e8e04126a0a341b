//! What tables and columns are.

mod tables;

pub use self::tables::*;

/// Raised when a column changes or goes away. It stands in the metadata of each file, as `mlprof.schema`.
pub const SCHEMA_VERSION: u32 = 2;
/// Under this name the version stands in files.
pub(super) const VERSION_KEY: &str = "mlprof.schema";

/// What a column's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit integers with a sign.
    Integer,
    /// 64-bit floating-point numbers.
    Real,
    /// UTF-8.
    Text,
}

/// How values are stored, before they are compressed. Every engine reads all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    /// Each value once, where there are few.
    Dictionary,
    /// Differences of neighbours.
    Delta,
    /// As they are: for numbers that repeat in patterns.
    Plain,
    /// Durations: each value once where they are few, as of recorders that know microseconds only. Else as they
    /// are, compressed in haste: patterns are looked for in vain in them, which costs more than it saves.
    Noise,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// What it is called.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Whether every row has one.
    pub is_required: bool,
    /// How its values are stored.
    pub(super) storage: Storage,
    /// What it says.
    pub about: &'static str,
}

/// A table: a folder of files, one per rank and cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// What it is called, as its folder is.
    pub name: &'static str,
    /// What its rows are.
    pub about: &'static str,
    /// Its columns.
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

/// The schema as text.
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
    /// The place of a column.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// In Parquet's own language.
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
