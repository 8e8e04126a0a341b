//! The value in the middle.

/// Of an even number of values the smaller one of the two in the middle; 0 of none.
pub fn median(mut values: Vec<i64>) -> i64 {
    let Some(last) = values.len().checked_sub(1) else { return 0 };
    *values.select_nth_unstable(last / 2).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_in_the_middle_it_is_the_smaller_one() {
        assert_eq!(median(Vec::new()), 0);
        assert_eq!(median(vec![7]), 7);
        assert_eq!(median(vec![9, 1, 5]), 5);
        assert_eq!(median(vec![4, 1, 9, 5]), 4);
    }
}
