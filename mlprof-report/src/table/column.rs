//! Columns of tables.

use super::Unit;

/// Result of a column when the page's script merges rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// The merged row has no value.
    Nothing,
    /// Rows with different cells are not merged.
    Key,
    /// Sum of the cells.
    Sum,
    /// Minimum of the cells.
    Min,
    /// Maximum of the cells.
    Max,
    /// Mean weighted by the column with this title, which counts calls. One call of each row is not
    /// included.
    Mean(&'static str),
}

/// Output formats that contain a column.
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
    /// Description of the cells, which pages show as a tooltip of the title.
    pub(crate) about: &'static str,
    pub(crate) unit: Unit,
    pub(crate) merge: Merge,
    /// Shows a bar behind the cells of pages. The largest number has a full bar.
    pub(crate) has_bar: bool,
    /// Text for unknown numbers.
    pub(crate) absent: Option<&'static str>,
    /// Omits the column in text if it is blank.
    pub(super) is_optional: bool,
    /// Shows a dash in text for the number 0.
    pub(super) has_no_zero: bool,
    /// Shows the sum of the rows in text rows that summarize several rows.
    pub(super) adds_up: bool,
    format: Format,
}

impl Column {
    /// Creates a column for all formats.
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
            adds_up: false,
            format: Format::All,
        }
    }

    /// Sets the result for merged rows.
    pub(crate) const fn merge(self, merge: Merge) -> Self {
        Self { merge, ..self }
    }

    /// Prevents merging of rows with different cells.
    pub(crate) const fn key(self) -> Self {
        self.merge(Merge::Key)
    }

    /// Sums the cells of merged rows.
    pub(crate) const fn sum(self) -> Self {
        self.merge(Merge::Sum)
    }

    /// Shows bars behind the cells of pages.
    pub const fn bar(self) -> Self {
        Self { has_bar: true, ..self }
    }

    /// Omits the column in text.
    pub const fn on_page(self) -> Self {
        Self { format: Format::Page, ..self }
    }

    /// Omits the column in pages.
    pub const fn in_text(self) -> Self {
        Self { format: Format::Text, ..self }
    }

    /// Omits the column in text if it is blank, as in pages.
    pub const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Sets the text for unknown numbers.
    pub const fn absent(self, absent: &'static str) -> Self {
        Self { absent: Some(absent), ..self }
    }

    /// Shows a dash in text for the number 0.
    pub(crate) const fn no_zero(self) -> Self {
        Self { has_no_zero: true, ..self }
    }

    /// Shows sums in text rows that summarize several rows. Rows must not contain each other.
    pub const fn adds_up(self) -> Self {
        Self { adds_up: true, ..self }
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
    /// Creates a column of names and words.
    words = Text;
    /// Creates a column of pictures, which only pages contain.
    markup = Markup;
    /// Creates a column of integers.
    count = Count;
    /// Creates a column of times in seconds.
    seconds = Seconds;
    /// Creates a column of sizes in bytes.
    bytes = Bytes;
    /// Creates a column of shares, 0 to 1.
    share = Share;
    /// Creates a column of shares, 0 to 1, which text shows as percentages without a sign.
    percent = Percent;
    /// Creates a column of relative changes.
    change = Change;
    /// Creates a column of plain numbers.
    number = Number;
    /// Creates a column of large numbers.
    large = Large;
}

/// Creates a column of times in seconds, with this number of significant digits in text.
pub const fn digits(digits: usize, title: &'static str, about: &'static str) -> Column {
    Column::new(title, Unit::Digits(digits), about)
}
