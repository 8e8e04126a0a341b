use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{Builder, sleep};
use std::time::Duration;

use super::*;

/// A source whose jobs are numbers, with a preparation function from the test.
struct Numbers<F> {
    count: usize,
    prepare: F,
}

impl<F: Fn(usize) -> Result<usize> + Send + Sync + 'static> BatchSource for Numbers<F> {
    type Job = usize;
    type Batch = usize;

    fn jobs(&self, _epoch: &EpochContext) -> Vec<usize> {
        (0..self.count).collect()
    }

    fn prepare(&self, job: usize) -> Result<usize> {
        (self.prepare)(job)
    }
}

fn batches(
    count: usize,
    workers: usize,
    prepare: impl Fn(usize) -> Result<usize> + Send + Sync + 'static,
) -> Batches<usize> {
    let loader = BackgroundLoader::new(Numbers { count, prepare }, workers);
    loader.start((0..count).collect()).expect("threads can be started")
}

/// Fails after 10 seconds instead of hanging.
fn within_10_seconds<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    let thread = Builder::new()
        .spawn(move || {
            let _ = sender.send(body());
        })
        .expect("a thread can be started");
    match receiver.recv_timeout(Duration::from_secs(10)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it ended without a result"))
        }
    }
}

#[test]
fn order_and_number_are_the_same_for_any_number_of_workers() {
    for workers in [0, 1, 2, 3, 7, 50] {
        // The first of every three jobs takes longest, so that batches finish out of order.
        let slow_third = |job: usize| {
            sleep(Duration::from_micros(if job.is_multiple_of(3) { 500 } else { 0 }));
            Ok(job * 10)
        };
        let mut batches = batches(20, workers, slow_third);
        assert_eq!(batches.size_hint(), (20, Some(20)));
        assert_eq!(batches.next().transpose().expect("prepared"), Some(0));
        assert_eq!(batches.size_hint(), (19, Some(19)));
        let rest: Vec<_> = batches.map(|batch| batch.expect("prepared")).collect();
        assert_eq!(rest, (1..20).map(|job| job * 10).collect::<Vec<_>>(), "{workers} workers");
    }
}

#[test]
fn an_epoch_without_batches_is_over_at_once() {
    for workers in [0, 2] {
        assert!(batches(0, workers, Ok).next().is_none());
    }
}

#[test]
fn an_error_comes_in_the_place_of_its_batch_and_ends_the_epoch() {
    for workers in [1, 2, 3] {
        let seen = within_10_seconds(move || {
            let fails = |job| if job == 4 { Err("damaged file".into()) } else { Ok(job) };
            let batches = batches(9, workers, fails);
            batches.map(|batch| batch.map_err(|error| error.to_string())).collect::<Vec<_>>()
        });
        let expected = [Ok(0), Ok(1), Ok(2), Ok(3), Err("damaged file".to_owned())];
        assert_eq!(seen, expected, "{workers} workers");
    }
}

#[test]
fn a_worker_that_panics_becomes_an_error() {
    for workers in [1, 2, 3] {
        let seen = within_10_seconds(move || {
            let panics = |job| {
                assert!(job != 4, "no such digit: {job}");
                Ok(job)
            };
            let batches = batches(9, workers, panics);
            batches.map(|batch| batch.map_err(|error| error.to_string())).collect::<Vec<_>>()
        });
        let (last, before) = seen.split_last().expect("something comes");
        assert_eq!(before, [Ok(0), Ok(1), Ok(2), Ok(3)]);
        let message = last.as_ref().expect_err("the panic");
        let worker = format!("batch_worker_{} stopped preparing batches", 4 % workers);
        assert!(message.contains(&worker) && message.contains("no such digit: 4"), "{message}");
    }
}

#[test]
fn an_epoch_that_is_left_early_lets_its_threads_end() {
    let prepared = Arc::new(AtomicUsize::new(0));
    let counter = prepared.clone();
    within_10_seconds(move || {
        let count = move |job| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(job)
        };
        let mut batches = batches(1000, 3, count);
        assert_eq!(batches.next().transpose().expect("prepared"), Some(0));
        drop(batches); // returns only when all threads have ended
    });
    // Each of three workers has two waiting batches, one in preparation and one that was taken.
    let prepared = prepared.load(Ordering::Relaxed);
    assert!((1..=3 * 3 + 1).contains(&prepared), "{prepared} were prepared");
}

#[test]
fn a_batch_that_nobody_takes_may_panic() {
    within_10_seconds(|| {
        let panics = |job| {
            assert!(job < 1, "not asked for");
            Ok(job)
        };
        drop(batches(4, 2, panics));
    });
}
