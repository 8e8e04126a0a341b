//! What ranks say together, for a console.

use std::fmt::Write;

use profiler_report::internals::{notes, shown};
use profiler_report::number::grouped;

use super::{Exposed, Method, Placed, Ranks, Straggler};
use crate::text::{part_of, section, time};

/// Ranks whose numbers are said one by one.
const NAMED: usize = 10;
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
        section(&mut text, "One time line", header, self.files.iter().map(row), ROWS);
        if self.common_steps == 0 {
            text.push_str(
                "\nThere is no step that all of them have: who is slow cannot be told.\n",
            );
        } else {
            self.stage_table(&mut text);
            self.slow_ranks(&mut text);
        }
        let _ = write!(text, "{}", notes(&self.notes));
        text
    }

    fn stage_table(&self, text: &mut String) {
        let steps = grouped(self.common_steps as u64);
        let heading = format!("What holds up the {steps} steps that all of them have");
        let row = |part: &Exposed| {
            let last = part.last.map_or_else(String::new, |(rank, times)| {
                format!("rank {rank}, {} times", grouped(times as u64))
            });
            let share = part_of(part.exposed_ns, self.length_ns);
            [part.stage.name.clone(), time(part.exposed_ns), share, last]
        };
        let header = ["Stage", "Exposed", "Share", "Most often last"];
        section(text, &heading, header, self.exposed.iter().map(row), usize::MAX);
    }

    fn slow_ranks(&self, text: &mut String) {
        if self.stragglers.is_empty() {
            text.push_str("\nNo rank is slow.\n");
        }
        for slow in self.stragglers.iter().take(NAMED) {
            let Straggler { rank, own_ns, usual_ns, stage, stage_longer_ns, longer_ns } = slow;
            let _ = writeln!(
                text,
                "\nRank {rank} is slow: its own work takes {} of a step, where that of the rank in the middle takes \
                 {}.\nIt loses the most in {stage}, {} of a step. In all it holds the others up for {} at most.",
                time(*own_ns),
                time(*usual_ns),
                time(*stage_longer_ns),
                time(*longer_ns)
            );
        }
        if let Some(more) = self.stragglers.len().checked_sub(NAMED).filter(|more| *more > 0) {
            let _ = writeln!(text, "\n… and {} more slow ranks", grouped(more as u64));
        }
    }
}

fn row(file: &Placed) -> [String; 7] {
    let offset = &file.offset;
    let by = match offset.method {
        Method::Reference => "what the others are related to".to_owned(),
        Method::MachineClock => "the machine's clock".to_owned(),
        Method::Collectives => format!("{} collectives", grouped(offset.meetings as u64)),
        Method::WallClock => "wall clocks, which may differ".to_owned(),
    };
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
    [file.rank.to_string(), host, added, error, drift, by, shown(&file.file)]
}

fn signed(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "−" } else { "" };
    format!("{sign}{}", time(nanoseconds.saturating_abs()))
}

/// `ranks 3, 5 and 7`.
fn numbers(ranks: &[u32]) -> String {
    let named: Vec<String> = ranks.iter().take(NAMED).map(u32::to_string).collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    match ranks.len() - named.len() {
        0 => format!("{word} {}", named.join(", ")),
        more => format!("{word} {} and {} more", named.join(", "), grouped(more as u64)),
    }
}
