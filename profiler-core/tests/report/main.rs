//! Compares reports with the formats of other programs: Lightning's tables, Python's number format,
//! `pstats` and `marshal`.

mod detailed;
mod json;
mod json_page;
mod lightning;
mod number;
mod prof;
mod pstats;
mod python;
mod samples;
