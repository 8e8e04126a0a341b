//! Named queries for a fleet, in plain SQL that other engines also execute.

/// Named query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Name of the query, which is also the name of its file.
    pub name: &'static str,
    /// SQL text of its file.
    pub sql: &'static str,
}

impl Question {
    /// Returns the description, which is the first line of the file.
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

/// All named queries: about ranks, steps, their contents, and devices.
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

/// Returns the query with this name.
pub fn find(name: &str) -> Option<&'static Question> {
    ALL.iter().find(|question| question.name == name)
}
