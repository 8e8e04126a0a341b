//! Loom tests: one thread reads a histogram while another counts, in every possible order.

use super::*;
use loom::sync::Arc;
use loom::thread;

/// Checks that a reader always finds a count that was current at some time, even while a byte is
/// carried.
#[test]
fn a_count_that_is_carried_is_never_seen_in_part() {
    for before in [CARRY - 2, 2 * CARRY - 2] {
        let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = orders.clone();
        loom::model(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let histogram = Arc::new(Histogram::new(&std::sync::Arc::default()));
            histogram.record(4, || ());
            let lane = histogram.lane(4) as usize;
            histogram.near[0].set(before << (8 * lane));
            histogram.carried[lane].set(before / CARRY * CARRY);
            // The reader is the spawned thread, for the reason given in the loom tests of the
            // stack.
            let reader = {
                let histogram = histogram.clone();
                thread::spawn(move || {
                    let seen = histogram.distribution();
                    assert_eq!(seen.0.len(), 1, "{seen:?}");
                    assert!((before..=before + 3).contains(&seen.total()), "{seen:?}");
                    seen.total()
                })
            };
            for _ in 0..3 {
                if !histogram.record_near(4) {
                    histogram.record(4, || ());
                }
            }
            let seen = reader.join().expect("reader");
            assert!(histogram.distribution().total() == before + 3 && seen <= before + 3);
        });
        let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
        assert!(orders > 5, "{orders} orders");
    }
}

/// Checks that a reader finds the near counts either at their old or at their new place, never in
/// both or neither.
#[test]
fn a_move_is_never_seen_in_part() {
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = orders.clone();
    let mut model = loom::model::Builder::new();
    // Without a bound on preemptions there would be too many orders.
    model.preemption_bound = Some(3);
    model.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let histogram = Arc::new(Histogram::new(&std::sync::Arc::default()));
        histogram.record(4, || ());
        histogram.record(1 << 40, || ());
        let reader = {
            let histogram = histogram.clone();
            thread::spawn(move || {
                let seen = histogram.distribution();
                let of = |ticks| {
                    let bucket = bucket_of(ticks) as u16;
                    let found = seen.0.iter().find(|(other, _)| *other == bucket);
                    found.map_or(0, |(_, count)| *count)
                };
                assert_eq!(of(4), 1, "{seen:?}");
                assert!((1..=3).contains(&of(1 << 40)), "{seen:?}");
                assert_eq!(of(4) + of(1 << 40), seen.total(), "{seen:?}");
            })
        };
        // The second far duration of one bucket makes that bucket near.
        assert!(histogram.record(1 << 40, || ()));
        histogram.record(1 << 40, || ());
        reader.join().expect("reader");
        assert_eq!(histogram.distribution().total(), 4);
        assert!(histogram.usual().contains(&(1 << 40)));
    });
    let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
    assert!(orders > 5, "{orders} orders");
}
