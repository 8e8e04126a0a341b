//! What ranks say together, for a console.

use std::fmt::Write;

use mlprof_report::internals::{notes, shown};
use mlprof_report::number::grouped;
use mlprof_report::ranks::{numbers, slow_ranks, stages_table};

use super::stages::is_of_devices;
use super::{Exposed, Method, Placed, Ranks};
use crate::text::cell::LastCell;
use crate::text::device::{COLLECTIVES, collective};
use crate::text::{section, section_of_names, time};

/// The heading of collectives that several ranks took part in.
pub(crate) const LAST_RANK: &str = "Collectives, timed on the rank that came last";

/// Files that have a row each.
const ROWS: usize = 64;

impl Ranks {
    /// Tables for a console: where the ranks' times lie, and who holds the others up.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let there = self.world_size as usize - self.missing.len().min(self.world_size as usize);
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(text, "{} of {} ranks", grouped(there as u64), self.world_size);
        if !self.missing.is_empty() {
            let _ = writeln!(text, "There is no trace of {}.", numbers(&self.missing));
        }
        let header = ["Rank", "Machine", "Added to its times", "± ", "Drift", "By", "Trace"];
        let rows = self.files.iter().map(|file| (row(file), LastCell::Path(&file.file)));
        section_of_names(&mut text, "One time line", header, rows, ROWS);
        if self.common_steps == 0 {
            text.push_str(
                "\nThere is no step that all of them have: who is slow cannot be told.\n",
            );
        } else {
            let exposed: Vec<Exposed> = self.exposed_stages().cloned().collect();
            if !exposed.is_empty() {
                text.push_str(&stages_table(self.common_steps as u64, &exposed));
            }
            let header = ["Rank", "Computing", "Copies", "Communication, not hidden"];
            let devices = self.devices.iter().map(|device| {
                let times = [device.compute_ns, device.memory_ns, device.communication_ns];
                let [compute, memory, communication] = times.map(time);
                [device.rank.to_string(), compute, memory, communication]
            });
            if !self.devices.is_empty() {
                section(&mut text, "Devices: median of a step", header, devices, ROWS);
            }
            text.push_str(&slow_ranks(&self.stragglers));
            if let Some(verdict) = self.verdict() {
                let _ = writeln!(text, "\n{verdict}");
            }
        }
        let rows = self.collectives.iter().map(collective);
        section(&mut text, LAST_RANK, COLLECTIVES, rows, ROWS);
        let all: Vec<String> = self.not_judged.iter().chain(&self.notes).cloned().collect();
        let _ = write!(text, "{}", notes(&all));
        text
    }

    /// Returns what holds steps up, without the work of devices where no host ever waited for it.
    pub(crate) fn exposed_stages(&self) -> impl Iterator<Item = &Exposed> {
        let is_shown = |part: &&Exposed| !is_of_devices(&part.stage) || part.exposed_ns > 0;
        self.exposed.iter().filter(is_shown)
    }

    /// Returns a sentence for ranks of which none is slow; `None` if some are.
    pub(crate) fn verdict(&self) -> Option<&'static str> {
        match (self.stragglers.is_empty(), self.not_judged.is_empty()) {
            (false, _) => None,
            (true, true) => Some("No rank is slow."),
            (true, false) => Some("No rank was found to be slow, but not everything was judged."),
        }
    }
}

fn row(file: &Placed) -> [String; 7] {
    let offset = &file.offset;
    let is_reference = offset.method == Method::Reference;
    let error = match offset.error_ns {
        _ if is_reference => String::new(),
        Some(error) => time(error),
        None => "?".to_owned(),
    };
    let added = if is_reference { String::new() } else { signed(offset.nanoseconds) };
    let drift = match offset.drift {
        0.0 => String::new(),
        drift => format!("{:.1} µs/s", drift * 1e6),
    };
    let host = file.host.as_deref().map_or_else(String::new, shown);
    let by = offset.found_by();
    [file.rank.to_string(), host, added, error, drift, by, String::new()]
}

fn signed(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "−" } else { "" };
    format!("{sign}{}", time(nanoseconds.saturating_abs()))
}
