//! Internal items for mlprof's other crates that create reports. **Not for users**: they may change
//! in any version.

pub use crate::confidence::{SURE, median_shares};
pub use crate::counted::{counted, counted_were};
pub use crate::label::{notes, shown, shown_within};
pub use crate::markup::escape;
pub use crate::missing::{Missing, note_missing, ops_remedy};
pub use crate::no_numbers::{has_numbers, little_beside_stages, reason_for_nothing};
#[cfg(feature = "html")]
/// Sections of a page that other crates provide.
pub mod sections {
    pub use crate::page::sections::{COLOURS, Content, Section, Stretch, Strip, html, text};
}
pub use crate::output::{ClaimedName, deliver_together, tell_apart, tell_missing};
pub use crate::ranks::text::stages_table;
pub use crate::steps::log::{StepLog, StepPart, StepParts, StepTicks};
/// Declarative tables for text, JSON and HTML.
pub mod table {
    pub use crate::table::{
        Cell, Column, LEAST_SHARE, Table, bytes, change, count, markup, number, seconds, share,
        small_rows, table, words,
    };
}
/// Short forms of kernel names for tables.
pub mod kernel_name {
    pub use crate::tensor::table::kernel_name::{function, short};
}
pub use crate::tensor::table::shapes_text;
