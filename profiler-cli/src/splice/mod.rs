//! Puts hooks into the source text of other people's crates, without moving a line.

pub mod edit;
