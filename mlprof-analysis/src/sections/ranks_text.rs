//! Console text of a multi-rank analysis.

use std::fmt::Write;

use mlprof_report::internals::{notes, sections};
use mlprof_report::number::grouped;
use mlprof_report::ranks::numbers;

use super::ranks::content as of_ranks;
use crate::ranks::stages::is_of_devices;
use crate::ranks::{Exposed, Ranks};

/// Maximum number of rows in a table.
const ROWS: usize = 64;

impl Ranks {
    /// Returns the console text: slow ranks and the clock offset of each rank.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let there = self.world_size as usize - self.missing.len().min(self.world_size as usize);
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(text, "{} of {} ranks", grouped(there as u64), self.world_size);
        if !self.missing.is_empty() {
            let _ = writeln!(text, "The traces of {} are missing.", numbers(&self.missing));
        }
        text.push_str(&sections::text(&of_ranks(self), ROWS));
        let all: Vec<String> = self.not_judged.iter().chain(&self.notes).cloned().collect();
        let _ = write!(text, "{}", notes(&all));
        text
    }

    /// Returns the stages that hold steps up. It omits device work that no host waited for.
    pub(crate) fn exposed_stages(&self) -> impl Iterator<Item = &Exposed> {
        let is_shown = |part: &&Exposed| !is_of_devices(&part.stage) || part.exposed_ns > 0;
        self.exposed.iter().filter(is_shown)
    }

    /// Returns a sentence for the case without slow ranks. `None` if some ranks are slow.
    pub(crate) fn verdict(&self) -> Option<&'static str> {
        match (self.stragglers.is_empty(), self.not_judged.is_empty()) {
            (false, _) => None,
            (true, true) => Some("No rank is slow."),
            (true, false) => Some("No slow rank was detected, but some checks were not possible."),
        }
    }
}
