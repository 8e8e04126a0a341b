//! What got worse by so much that somebody should look.

use std::fmt::{self, Display, Formatter};

use super::series::TRACE;
use super::verdict::LEAST_SHARE;
use super::{Comparison, Measured, Subject, Verdict};
use crate::label;
use crate::number::share;
use crate::table::Unit;

/// A row that got worse beyond what varies anyway. Displayed as one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    /// Whose report it is in: `Simple, fit`.
    pub report: String,
    /// What it is one of.
    pub subject: Subject,
    /// Its name.
    pub name: String,
    /// Before.
    pub before: Measured,
    /// After.
    pub after: Measured,
    /// How much more that is, as a part of what it was.
    pub change: f64,
    /// How much more it is at the least, beyond what varies anyway.
    pub sure_change: f64,
    /// The part that it is of the run: 0 to 1.
    pub share: f64,
    /// Whether it is of a trace: of steps, not of calls.
    pub is_of_trace: bool,
}

impl Comparison {
    /// Rows that are slower or take more memory, by more than `threshold` beyond what varies
    /// anyway, a part of what they were (0.05: 5 %), and are [enough](LEAST_SHARE) of the run. Of a
    /// hundred comparisons of equal runs at most one has any.
    pub fn regressions(&self, threshold: f64) -> Vec<Regression> {
        let mut regressions = Vec::new();
        for part in &self.parts {
            let rows = part
                .tables
                .iter()
                .flat_map(|table| table.rows.iter().map(move |row| (table.subject, row)));
            for (subject, row) in rows {
                let (Some(before), Some(after)) = (row.before, row.after) else { continue };
                let Some((change, sure_change)) = row.change.zip(row.sure_change) else { continue };
                let is_worse = row.verdict == Verdict::Worse;
                if is_worse && sure_change > threshold && row.share >= LEAST_SHARE {
                    let (report, name) = (part.title(), row.name.clone());
                    let share = row.share;
                    let is_of_trace = part.profiler == TRACE;
                    regressions.push(Regression {
                        report,
                        subject,
                        name,
                        before,
                        after,
                        change,
                        sure_change,
                        share,
                        is_of_trace,
                    });
                }
            }
        }
        regressions
    }

    /// Whether anything could be judged that is [enough](LEAST_SHARE) of the run: if not, no list of
    /// regressions says anything.
    pub fn is_judged(&self) -> bool {
        let rows = self.parts.iter().flat_map(|part| &part.tables).flat_map(|table| &table.rows);
        rows.filter(|row| row.share >= LEAST_SHARE).any(|row| match row.verdict {
            Verdict::Worse | Verdict::Better | Verdict::Same => true,
            Verdict::OnlyAfter | Verdict::OnlyBefore | Verdict::TooFew | Verdict::Unknown => false,
        })
    }
}

impl Display for Regression {
    fn fmt(&self, text: &mut Formatter<'_>) -> fmt::Result {
        let Self { report, subject, name, before, after, share: part, is_of_trace, .. } = self;
        let unit = subject.unit();
        let word = Verdict::Worse.word(unit);
        let name = label::shown(name);
        let title = subject.title();
        let (earlier, later) = (unit.write(before.value), unit.write(after.value));
        let [change, least] = [self.change, self.sure_change].map(|it| Unit::Change.write_text(it));
        write!(
            text,
            "{report}: {title}: {name}: {word}, {change} (at least {least}): {earlier} before, \
             {later} after"
        )?;
        if before.calls != after.calls && !is_of_trace {
            write!(text, ", called {} times instead of {}", after.calls, before.calls)?;
        }
        write!(text, "; {} of the run", share(*part, 1.0))
    }
}
