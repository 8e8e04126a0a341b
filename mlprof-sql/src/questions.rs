//! Questions that a fleet has, as plain SQL that other engines run as well.

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// What it is called, as its file is.
    pub name: &'static str,
    /// The text of its file.
    pub sql: &'static str,
}

impl Question {
    /// What it answers: its first line.
    pub fn about(&self) -> &'static str {
        let first = self.sql.lines().next().unwrap_or_default();
        first.strip_prefix("-- ").unwrap_or(first)
    }
}

macro_rules! questions {
    ($($name:literal),* $(,)?) => {
        [$(Question { name: $name, sql: include_str!(concat!("../sql/", $name, ".sql")) }),*]
    };
}

/// All of them: of ranks, of steps, of what is in them, of devices.
pub const ALL: [Question; 19] = questions![
    "recorded",
    "straggler",
    "exposed",
    "slowest_ranks",
    "hosts",
    "collectives",
    "steps",
    "step_times",
    "outliers",
    "data",
    "actions",
    "ops",
    "modules",
    "kernels",
    "devices",
    "overlap",
    "launches",
    "copies",
    "memory",
];

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Question> {
    ALL.iter().find(|question| question.name == name)
}
