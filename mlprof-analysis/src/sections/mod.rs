//! Analysis results as report sections: tables and sentences for both text and HTML pages.

mod cells;
mod device;
mod names;
mod path;
mod ranks;
mod ranks_text;
mod sentences;
mod steps;
mod threads;

use mlprof_report::internals::sections::Content;
use mlprof_report::number::duration;

pub(crate) use self::ranks::content as of_ranks;
use crate::analysis::Analysis;

/// Returns the tables and sentences of an analysis.
pub(crate) fn of_analysis(analysis: &Analysis) -> Vec<Content> {
    let mut content = Vec::new();
    steps::add(&mut content, analysis);
    path::add(&mut content, analysis);
    threads::add(&mut content, analysis);
    for device in &analysis.devices {
        device::add(&mut content, device);
    }
    content
}

pub(crate) fn time(nanoseconds: i64) -> String {
    duration(nanoseconds as f64 / 1e9)
}

fn heading(content: &mut Vec<Content>, anchor: &str, title: &str) {
    content.push(Content::Heading(anchor.to_owned(), title.to_owned()));
}
