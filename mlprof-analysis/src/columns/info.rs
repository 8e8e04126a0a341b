//! Trace metadata stored in tables.

use super::ColumnsError;
use super::file;
use super::paths::TraceFiles;
use super::schema::{CLOCKS, PAUSES, RANKS};
use crate::trace::{ClockReading, Info};

pub(super) fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Reads the trace metadata from the tables.
pub(super) fn info(files: &TraceFiles) -> Result<Info, ColumnsError> {
    let mut info = Info::default();
    let columns = [
        "rank",
        "cycle",
        "world_size",
        "host",
        "boot_id",
        "stage",
        "base_ns",
        "dropped",
        "not_understood",
        "cut_short",
        "events",
    ];
    file::read(&files.of(&RANKS), &RANKS, &columns, |rows| {
        let text = |name: &str| rows.text(name)(0).map(str::to_owned);
        (info.rank, info.has_rank) = (small(rows.integer("rank")(0)), true);
        info.cycle = natural(rows.integer("cycle")(0));
        info.world_size = small(rows.integer("world_size")(0)).min(Info::MOST_RANKS);
        info.base_ns = rows.integer("base_ns")(0);
        info.dropped = natural(rows.integer("dropped")(0));
        info.events = natural(rows.integer("events")(0));
        info.not_understood = natural(rows.integer("not_understood")(0));
        (info.host, info.stage, info.cut_short) = (text("host"), text("stage"), text("cut_short"));
        info.boot_id = text("boot_id");
    })?;
    // Tables of the first version have no clock readings.
    if files.of(&CLOCKS).exists() {
        let columns = ["ts", "realtime", "monotonic", "error"];
        file::read(&files.of(&CLOCKS), &CLOCKS, &columns, |rows| {
            let [time, realtime, error] = ["ts", "realtime", "error"].map(|it| rows.integer(it));
            let monotonic = rows.maybe("monotonic");
            info.clocks.extend((0..rows.count).map(|row| ClockReading {
                time: time(row),
                realtime: realtime(row),
                monotonic: monotonic(row),
                error: error(row),
            }));
        })?;
    }
    if has_pauses(files) {
        file::read(&files.of(&PAUSES), &PAUSES, &["ts", "dur"], |rows| {
            let [start, length] = ["ts", "dur"].map(|it| rows.integer(it));
            let pause = |row| (start(row), start(row).saturating_add(length(row)));
            info.pauses.extend((0..rows.count).map(pause));
        })?;
        info.pauses.sort_unstable();
    }
    Ok(info)
}

/// Returns `true` if the tables list recording pauses. Tables of earlier versions do not.
pub(super) fn has_pauses(files: &TraceFiles) -> bool {
    files.of(&PAUSES).exists()
}
