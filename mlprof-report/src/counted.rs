//! Text of counts, in the singular or the plural.

use crate::number::grouped;

/// Formats a count: `1 step`, `20 steps`, `1,234 steps`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// Formats a count with a verb: `1 step was`, `20 steps were`.
pub fn counted_were(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", counted(count, one, many), if count == 1 { "was" } else { "were" })
}

/// Formats a count after a verb: `was 1 step`, `were 20 steps`.
pub(crate) fn were(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", if count == 1 { "was" } else { "were" }, counted(count, one, many))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_counted_in_the_singular_and_the_plural() {
        let batches = |count| counted(count, "batch", "batches");
        assert_eq!(counted_were(1, "step", "steps"), "1 step was");
        assert_eq!(counted_were(2, "step", "steps"), "2 steps were");
        assert_eq!(
            [were(1, "step", "steps"), were(2, "step", "steps")],
            ["was 1 step", "were 2 steps"]
        );
        assert_eq!(
            [batches(0), batches(1), batches(1234)],
            ["0 batches", "1 batch", "1,234 batches"]
        );
    }
}
