//! What a check found.

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What was checked.
    pub name: String,
    /// What was measured, in words.
    pub measured: String,
    /// What it is to be, in words; empty if nothing is asked of it.
    pub limit: String,
    /// What came of it.
    pub verdict: Verdict,
}

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As it is to be.
    Good,
    /// Not as it is to be, or it broke off.
    Failed,
    /// It could not run here, for this reason.
    NotRun(String),
}

impl Row {
    /// Something with a limit.
    pub fn decided(
        name: impl Into<String>,
        measured: impl Into<String>,
        limit: impl Into<String>,
        is_good: bool,
    ) -> Self {
        let verdict = if is_good { Verdict::Good } else { Verdict::Failed };
        Self { name: name.into(), measured: measured.into(), limit: limit.into(), verdict }
    }

    /// Something that is worth knowing, and has no limit.
    pub fn told(name: impl Into<String>, measured: impl Into<String>) -> Self {
        Self::decided(name, measured, "", true)
    }

    /// A check that broke off.
    pub fn failed(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::decided(name, why, "", false)
    }

    /// A check that cannot run here.
    pub fn not_run(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotRun(why.into()), ..Self::told(name, "") }
    }

    /// Whether the table has to say so.
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
        assert!(!Row::told("a", "2").has_failed());
        assert!(!Row::not_run("a", "no Python").has_failed());
    }
}
