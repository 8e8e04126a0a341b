//! A histogram read by one thread while another counts, in every order that they can run in.

use super::*;
use loom::sync::Arc;
use loom::thread;

/// Whatever a reader finds while a byte overflows into what is carried, it is what has been counted
/// at some time.
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
            // The reader is spawned, not the writer: see the tests of the stack.
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

/// A reader finds what is near either where it was or where it went, never both or neither.
#[test]
fn a_move_is_never_seen_in_part() {
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = orders.clone();
    let mut model = loom::model::Builder::new();
    // With any number of switches there are too many orders.
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
        // The second one of what is far makes it what is near.
        assert!(histogram.record(1 << 40, || ()));
        histogram.record(1 << 40, || ());
        reader.join().expect("reader");
        assert_eq!(histogram.distribution().total(), 4);
        assert!(histogram.usual().contains(&(1 << 40)));
    });
    let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
    assert!(orders > 5, "{orders} orders");
}
