//! Columns of tables.

use super::Unit;

/// The result of a column where a script puts rows together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// There is none.
    Nothing,
    /// Rows with different cells stay apart.
    Key,
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// The most.
    Max,
    /// The mean, weighted by the column of this title, which counts calls. One call of each row is
    /// not in it.
    Mean(&'static str),
}

/// The formats that have a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    All,
    Text,
    Page,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub(crate) title: &'static str,
    /// The meaning of its cells, which pages show where the title is pointed at.
    pub(crate) about: &'static str,
    pub(crate) unit: Unit,
    pub(crate) merge: Merge,
    /// Whether cells of a page have a bar behind them. The largest number has a whole one.
    pub(crate) has_bar: bool,
    /// The text of numbers that are not known.
    pub(crate) absent: Option<&'static str>,
    /// Whether text has the column only if it is not blank.
    pub(super) is_optional: bool,
    /// Whether text has a dash where a number is 0.
    pub(super) has_no_zero: bool,
    format: Format,
}

impl Column {
    /// Returns a column that all formats have.
    pub const fn new(title: &'static str, unit: Unit, about: &'static str) -> Self {
        Self {
            title,
            about,
            unit,
            merge: Merge::Nothing,
            has_bar: false,
            absent: None,
            is_optional: false,
            has_no_zero: false,
            format: Format::All,
        }
    }

    /// Sets the result where rows are put together.
    pub(crate) const fn merge(self, merge: Merge) -> Self {
        Self { merge, ..self }
    }

    /// Keeps rows with different cells apart where rows are put together.
    pub(crate) const fn key(self) -> Self {
        self.merge(Merge::Key)
    }

    /// Adds cells up where rows are put together.
    pub(crate) const fn sum(self) -> Self {
        self.merge(Merge::Sum)
    }

    /// Adds bars to the cells of pages.
    pub const fn bar(self) -> Self {
        Self { has_bar: true, ..self }
    }

    /// Leaves the column out of text.
    pub const fn on_page(self) -> Self {
        Self { format: Format::Page, ..self }
    }

    /// Leaves the column out of pages.
    pub const fn in_text(self) -> Self {
        Self { format: Format::Text, ..self }
    }

    /// Leaves the column out of text where it is blank, as pages do.
    pub const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Replaces the text of numbers that are not known.
    pub const fn absent(self, absent: &'static str) -> Self {
        Self { absent: Some(absent), ..self }
    }

    /// Writes a dash in text where a number is 0.
    pub(crate) const fn no_zero(self) -> Self {
        Self { has_no_zero: true, ..self }
    }

    pub(crate) fn is_in_text(&self) -> bool {
        self.format != Format::Page && self.unit != Unit::Markup
    }

    pub(crate) fn is_on_page(&self) -> bool {
        self.format != Format::Text
    }
}

macro_rules! columns {
    ($($(#[$doc:meta])+ $name:ident = $unit:ident;)*) => {$(
        $(#[$doc])+
        pub const fn $name(title: &'static str, about: &'static str) -> Column {
            Column::new(title, Unit::$unit, about)
        }
    )*};
}

columns! {
    /// Returns a column of names and words.
    words = Text;
    /// Returns a column of pictures, which only pages have.
    markup = Markup;
    /// Returns a column of whole numbers.
    count = Count;
    /// Returns a column of times in seconds.
    seconds = Seconds;
    /// Returns a column of sizes in bytes.
    bytes = Bytes;
    /// Returns a column of parts of a whole, 0 to 1.
    share = Share;
    /// Returns a column of relative changes.
    change = Change;
    /// Returns a column of plain numbers.
    number = Number;
    /// Returns a column of large numbers.
    large = Large;
}

/// Returns a column of times in seconds, with this number of digits in text.
pub const fn digits(digits: usize, title: &'static str, about: &'static str) -> Column {
    Column::new(title, Unit::Digits(digits), about)
}
