//! Maximum cost of a scope.

/// A limit for the result of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Maximum nanoseconds per scope.
    Nanoseconds(f64),
    /// Maximum multiple of the floor on the same number of threads.
    Floors(f64),
    /// Maximum nanoseconds above the sum of these rows on the same number of threads.
    Above(&'static [&'static str], f64),
}

impl Budget {
    /// Returns the budget of a row, or `None` for other profilers.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Nanoseconds(2.0)),
            "simple" | "simple_str" => Some(Self::Floors(1.3)),
            "advanced" => Some(Self::Floors(1.5)),
            // The reference is a row that calls both profilers directly, because their combined
            // cost exceeds the sum of the single costs.
            "several" => Some(Self::Above(&["both_by_hand"], 5.0)),
            // The limits with ten thousand names or open scopes are 1.5 times as high.
            "simple_10000" | "simple_deep" => Some(Self::Floors(1.95)),
            "advanced_10000" | "advanced_deep" => Some(Self::Floors(2.25)),
            "tensor_op" => Some(Self::Floors(1.7)),
            "tensor_op_shapes" => Some(Self::Floors(2.5)),
            "spliced_op_shapes" => Some(Self::Floors(2.7)),
            _ => None,
        }
    }

    /// Returns `true` if a result is within the budget. `other` returns the nanoseconds of another
    /// row.
    pub fn holds(self, median_ns: f64, floor_ratio: f64, other: impl Fn(&str) -> f64) -> bool {
        match self {
            Self::Nanoseconds(limit) => median_ns <= limit,
            Self::Floors(limit) => floor_ratio <= limit,
            Self::Above(rows, limit) => {
                median_ns <= rows.iter().map(|row| other(row)).sum::<f64>() + limit
            }
        }
    }
}

impl std::fmt::Display for Budget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nanoseconds(limit) => formatter.pad(&format!("≤ {limit:.0} ns")),
            Self::Floors(limit) => formatter.pad(&format!("≤ {limit:.1} ×")),
            Self::Above(_, limit) => formatter.pad(&format!("≤ Σ + {limit:.0}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_of_their_own_unit() {
        let other = |row: &str| if row == "simple" { 20.0 } else { 30.0 };
        assert!(Budget::Nanoseconds(2.0).holds(2.0, 99.0, other));
        assert!(!Budget::Nanoseconds(2.0).holds(2.1, 0.1, other));
        assert!(Budget::Floors(1.3).holds(99.0, 1.3, other));
        assert!(!Budget::Floors(1.3).holds(0.1, 1.31, other));
        assert!(Budget::Above(&["simple", "advanced"], 5.0).holds(55.0, 99.0, other));
        assert!(!Budget::Above(&["simple", "advanced"], 5.0).holds(55.1, 0.1, other));
        assert_eq!(Budget::of("hotpath"), None);
    }
}
