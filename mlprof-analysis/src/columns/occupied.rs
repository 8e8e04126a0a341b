//! Protection of existing tables against overwriting by another recording.

use std::io;
use std::path::Path;

use super::file;
use super::info::{has_pauses, info};
use super::paths::TraceFiles;
use super::schema::SLICES;
use crate::trace::{Info, Trace};

/// Returns an error if a folder contains tables of the same rank and cycle from another recording.
pub(super) fn refuse_another(trace: &Trace, folder: &Path) -> io::Result<()> {
    let own = &trace.info;
    let files = TraceFiles::new(folder, own.rank, own.cycle);
    // Unreadable tables need no protection.
    let Ok(there) = info(&files) else { return Ok(()) };
    // Tables of earlier versions contain neither the number of events nor pauses.
    let mut comparable = Info { events: there.events, ..own.kept_in_tables() };
    if !has_pauses(&files) {
        comparable.pauses.clear();
    }
    let of_stage = |info: &Info| match &info.stage {
        Some(stage) => format!("of {stage}"),
        None => "without a stage".to_owned(),
    };
    let of_host = |info: &Info| match &info.host {
        Some(host) => format!("of host {host}"),
        None => "without a host name".to_owned(),
    };
    let (theirs, ours) = match () {
        () if there.stage != own.stage => (of_stage(&there), of_stage(own)),
        () if there.host != own.host => (of_host(&there), of_host(own)),
        () if there != comparable || begins_elsewhere(trace, &files) => {
            ("of another run".to_owned(), "of this run".to_owned())
        }
        () => return Ok(()),
    };
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!(
            "cannot write tables {ours} to {}: it already has tables of cycle {} of rank {} {theirs}; choose \
             another folder",
            folder.display(),
            own.cycle,
            own.rank,
        ),
    ))
}

/// Returns `true` if the first slice of the existing tables differs from that of the trace. This
/// comparison is needed because PyTorch's traces have little metadata.
fn begins_elsewhere(trace: &Trace, files: &TraceFiles) -> bool {
    let mut first = None;
    let read = file::read(&files.of(&SLICES), &SLICES, &["ts"], |rows| {
        let ts = rows.integer("ts");
        first = first.or_else(|| (rows.count > 0).then(|| ts(0)));
    });
    read.is_ok() && first != trace.window().map(|(start, _)| start)
}
