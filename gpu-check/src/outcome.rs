//! Results of a check.

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Name of the measurement.
    pub name: String,
    /// Measured value as text.
    pub measured: String,
    /// Required value as text; empty if there is no requirement.
    pub limit: String,
    /// Verdict of the row.
    pub verdict: Verdict,
}

/// The verdict of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The requirement is met.
    Good,
    /// The requirement is not met, or the check was aborted.
    Failed,
    /// The check could not run on this machine, for this reason.
    NotRun(String),
}

impl Row {
    /// Creates a row with a requirement.
    pub fn decided(
        name: impl Into<String>,
        measured: impl Into<String>,
        limit: impl Into<String>,
        is_good: bool,
    ) -> Self {
        let verdict = if is_good { Verdict::Good } else { Verdict::Failed };
        Self { name: name.into(), measured: measured.into(), limit: limit.into(), verdict }
    }

    /// Creates an informational row without a requirement.
    pub fn info(name: impl Into<String>, measured: impl Into<String>) -> Self {
        Self::decided(name, measured, "", true)
    }

    /// Creates a row for an aborted check.
    pub fn failed(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::decided(name, why, "", false)
    }

    /// Creates a row for a check that cannot run on this machine.
    pub fn not_run(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotRun(why.into()), ..Self::info(name, "") }
    }

    /// Returns `true` if the row has failed.
    pub fn has_failed(&self) -> bool {
        self.verdict == Verdict::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_tried_can_fail() {
        assert!(Row::failed("a", "no").has_failed());
        assert!(Row::decided("a", "3", "2", false).has_failed());
        assert!(!Row::decided("a", "2", "2", true).has_failed());
        assert!(!Row::info("a", "2").has_failed());
        assert!(!Row::not_run("a", "no Python").has_failed());
    }
}
