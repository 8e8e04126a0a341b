//! What findings promise, beside what mending saves.

/// What a rule promises is what mending saves, but for 30 % of `whole`, which is given both: `measure` runs a program with a fault and
/// without, and says what was promised and what was saved. Others may have the machine's cores all the time that one of the two runs
/// takes: not each of three times.
pub fn assert_promise_is_kept(whole: fn(f64, f64) -> f64, mut measure: impl FnMut() -> (f64, f64)) {
    let is_kept = (0..3).any(|_| {
        let (promised, saved) = measure();
        println!("{promised} promised, {saved} saved");
        (promised - saved).abs() <= 0.3 * whole(promised, saved)
    });
    assert!(is_kept, "what is promised is saved");
}
