//! Tests of counting near and far durations.

use super::*;

fn histogram() -> Histogram {
    Histogram::new(&Arc::default())
}

fn record(histogram: &Histogram, ticks: u64) {
    histogram.record(ticks, || ());
}

#[test]
fn every_duration_is_counted_in_its_bucket_near_or_far() {
    for first in [0, 1, 9, 1000, 1 << 40, u64::MAX] {
        let (histogram, mut expected) = (histogram(), Distribution::default());
        let powers = (0..64).step_by(if cfg!(miri) { 5 } else { 1 }).map(|power| 1_u64 << power);
        for ticks in [first, 0, u64::MAX].into_iter().chain(powers.clone()).chain(powers) {
            record(&histogram, ticks);
            expected.add(ticks);
        }
        assert_eq!(histogram.distribution(), expected, "first {first}");
        assert_eq!(expected.total(), if cfg!(miri) { 29 } else { 131 });
    }
}

/// Reads as many histograms as a thread with hundreds of names has, while their thread adds
/// octaves.
#[test]
fn octaves_of_many_histograms_are_read_while_more_are_made() {
    let (octaves, count) = (Arc::default(), if cfg!(miri) { 3 } else { 50 });
    let powers = (4..64).step_by(if cfg!(miri) { 6 } else { 1 });
    let each = powers.len() as u64;
    let histograms: Vec<Histogram> = (0..count).map(|_| Histogram::new(&octaves)).collect();
    let counted = || histograms.iter().map(|one| one.distribution().total()).sum::<u64>();
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut last = 0;
            while last < count * each {
                let now = counted();
                assert!(now >= last, "{now} after {last}");
                last = now;
                std::thread::yield_now();
            }
        });
        for power in powers {
            histograms.iter().for_each(|one| record(one, 1 << power));
        }
        reader.join().expect("no panic");
    });
    assert_eq!(counted(), count * each);
    // The last owner keeps the octaves alive.
    drop(octaves);
    assert!(histograms.iter().all(|one| one.distribution().total() == each));
}

/// Checks that the fast path is not lost if the first durations are longer than all later ones.
#[test]
fn the_fast_path_moves_to_the_most_frequent_durations() {
    let (histogram, mut expected) = (histogram(), Distribution::default());
    let count = |expected: &mut Distribution, ticks| {
        expected.add(ticks);
        assert_eq!(histogram.distribution(), *expected, "{ticks}");
    };
    for ticks in [5000, 5100, 1] {
        record(&histogram, ticks);
        count(&mut expected, ticks);
    }
    assert!(!histogram.usual().contains(&26));
    for _ in 0..20 {
        record(&histogram, 26);
        count(&mut expected, 26);
    }
    assert!(histogram.usual().contains(&26) && !histogram.usual().contains(&5000));
    // Durations of one and of two counter steps are both near.
    for ticks in [1, 26, 52, 26].into_iter().cycle().take(40) {
        assert!(histogram.usual().contains(&ticks) && histogram.record_near(ticks));
        count(&mut expected, ticks);
    }
    // A few other durations do not move the near buckets. Many do, repeatedly, and no count is
    // lost.
    (0..20).for_each(|_| record(&histogram, 1 << 20));
    assert!(histogram.usual().contains(&26));
    let mut moves = 0;
    for ticks in [1 << 20, 26, 1 << 40, 26, 1 << 20] {
        (0..1000).for_each(|_| {
            record(&histogram, ticks);
        });
        moves += usize::from(histogram.usual().contains(&ticks));
    }
    assert!(moves >= 3, "{moves}");
    assert_eq!(histogram.distribution().total(), expected.total() + 20 + 5000);
}

/// Checks that occasional other durations do not move the near buckets back and forth.
#[test]
fn the_fast_path_stays_at_the_most_frequent_durations() {
    let (histogram, mut moves) = (histogram(), 0);
    for call in 0..if cfg!(miri) { 600 } else { 100_000_u64 } {
        let ticks = if call % 50 == 3 { 1_000_000 } else { 1000 };
        histogram.record(ticks, || moves += 1);
    }
    assert_eq!(moves, 0);
    assert!(histogram.usual().contains(&1000));
}

/// Reads a histogram while its near buckets move repeatedly.
#[test]
fn a_move_is_never_seen_in_part() {
    let histogram = histogram();
    let rounds = if cfg!(miri) { 8 } else { 24 };
    let of = |round: u32| 1_u64 << (10 + 10 * (round % 3));
    let all: u64 = (0..rounds).map(|round| 16 << (round / 2).min(12)).sum();
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut last = 0;
            while last < all {
                let seen = histogram.distribution();
                assert!(seen.total() >= last, "{seen:?} after {last}");
                last = seen.total();
                let expected = [of(0), of(1), of(2)].map(|ticks| bucket_of(ticks) as u16);
                assert!(seen.0.iter().all(|(bucket, _)| expected.contains(bucket)), "{seen:?}");
                std::thread::yield_now();
            }
        });
        for round in 0..rounds {
            for _ in 0..16 << (round / 2).min(12) {
                record(&histogram, of(round));
            }
        }
        reader.join().expect("no panic");
    });
    assert_eq!(histogram.distribution().total(), all);
}

/// Checks that a byte can overflow without a change of its neighbours.
#[test]
fn counts_above_a_byte_are_carried() {
    let (histogram, mut expected) = (histogram(), Distribution::default());
    let calls = if cfg!(miri) { 700 } else { 100_000 };
    for call in 0..calls {
        // Every second duration falls into the same bucket, and the others into buckets around it.
        let ticks = if call % 2 == 0 { 1000 } else { 512 + 64 * (call / 2 % 24) };
        let is_usual = !histogram.is_empty() && histogram.usual().contains(&ticks);
        if !(is_usual && histogram.record_near(ticks)) {
            record(&histogram, ticks);
        }
        expected.add(ticks);
        assert!(call % 97 != 0 || histogram.distribution() == expected, "call {call}");
    }
    assert_eq!(histogram.distribution(), expected);
}

#[test]
fn hardly_any_call_has_something_to_carry() {
    let histogram = histogram();
    (0..10).for_each(|_| record(&histogram, 1000));
    let times = if cfg!(miri) { 2 } else { 10 };
    let carries = (0..128 * times).filter(|_| {
        !histogram.record_near(1000) && {
            record(&histogram, 1000);
            true
        }
    });
    assert_eq!(carries.count(), times);
    assert_eq!(histogram.distribution().total(), 10 + 128 * times as u64);
}

#[test]
fn merging_adds_bucket_by_bucket() {
    let (one, other, both) = (histogram(), histogram(), histogram());
    for n in (0..200_u64).step_by(if cfg!(miri) { 7 } else { 1 }) {
        let ticks = n * n * n;
        record(if n % 3 == 0 { &one } else { &other }, ticks);
        record(&both, ticks);
    }
    let mut merged = one.distribution();
    merged.merge(&other.distribution());
    assert_eq!(merged, both.distribution());
}

#[test]
#[cfg_attr(miri, ignore = "ten thousand durations")]
fn quantiles_are_within_an_eighth_of_the_exact_ones() {
    let histogram = histogram();
    let durations: Vec<u64> = (0..10_000_u64).map(|n| 50 + n * n / 7).collect();
    for ticks in &durations {
        record(&histogram, *ticks);
    }
    let distribution = histogram.distribution();
    for share in [0.01, 0.25, 0.5, 0.9, 0.95, 0.999] {
        let exact = durations[(share * 10_000.0) as usize - 1] as f64;
        let found = distribution.quantile(share) as f64;
        assert!((found / exact - 1.0).abs() < 0.07, "p{share}: {found} against {exact}");
    }
}

#[test]
fn one_duration_is_every_quantile() {
    let histogram = histogram();
    record(&histogram, 1000);
    for share in [0.0, 0.5, 1.0] {
        let found = histogram.distribution().quantile(share);
        assert_eq!(bucket_of(found), bucket_of(1000));
    }
    assert_eq!(Distribution::default().quantile(0.5), 0);
}
