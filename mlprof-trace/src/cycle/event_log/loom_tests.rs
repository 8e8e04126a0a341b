//! Loom test of a log that one thread takes while another writes it, in every possible order.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use loom::thread;

/// Checks that the reader finds complete records, beginning with the first. Other records are lost
/// and never appear in the next recording.
#[test]
fn taken_logs_are_complete() {
    let orders = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = orders.clone();
    loom::model(move || {
        counted.fetch_add(1, Relaxed);
        let pool = Arc::new(Pool::<2>::default());
        let log = loom::sync::Arc::new(Log::new(pool.clone()));
        // The reader is the spawned thread, as in the tests of the stack of open scopes.
        let reader = {
            let log = log.clone();
            thread::spawn(move || {
                let taken = log.take();
                let records: Vec<_> = taken.records().collect();
                assert_eq!(records.len(), taken.len());
                for (index, record) in records.iter().enumerate() {
                    assert_eq!(*record, [index as u64 + 1; 2]);
                }
            })
        };
        let (mut writer, budget) = (LogWriter::default(), Budget::new(100));
        for record in 1..=3 {
            writer.push(&log, &budget, [record; 2]);
        }
        assert_eq!(writer.count(), 3);
        reader.join().expect("reader");
        // The writer may continue to use a chunk that was taken, so the pool must not reuse that
        // chunk.
        let other = Log::new(pool);
        LogWriter::default().push(&other, &budget, [9; 2]);
        writer.push(&log, &budget, [4; 2]);
        assert_eq!(other.take().records().collect::<Vec<_>>(), [[9; 2]]);
    });
    let orders = orders.load(Relaxed);
    assert!(orders > 20, "{orders} orders");
}
