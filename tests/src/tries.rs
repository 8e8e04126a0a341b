//! Checks of durations, which other programs on the machine can disturb.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a check that must succeed in one of three attempts. Other programs may use the machine's
/// cores during an attempt, and rules then find their effects. Counts do not depend on time and are
/// checked separately.
pub fn assert_in_one_of_three(check: impl Fn()) {
    for number in 1..3 {
        if catch_unwind(AssertUnwindSafe(&check)).is_ok() {
            return;
        }
        println!("this was try {number} of 3");
    }
    check();
}

/// Asserts that a rule's prediction matches the saved time within 30 % of `whole` of the two
/// durations. `measure` runs a program with and without a fault, and returns the predicted and the
/// saved time.
pub fn assert_promise_is_kept(whole: fn(f64, f64) -> f64, measure: impl Fn() -> (f64, f64)) {
    assert_in_one_of_three(|| {
        let (promised, saved) = measure();
        println!("{promised} promised, {saved} saved");
        assert!(
            (promised - saved).abs() <= 0.3 * whole(promised, saved),
            "{promised} promised, {saved} saved"
        );
    });
}
