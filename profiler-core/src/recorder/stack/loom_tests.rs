//! Loom tests: one thread reads the stack while another writes it, in every possible order.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use loom::sync::Arc;
use loom::thread;

/// Runs `read` on a spawned thread and `write` on this one, in every order. Returns the number of
/// orders.
///
/// The reader is the spawned thread because loom remembers only the last access to an atomic. A
/// single writer begins its change with a load. After a reader's load, that load would hide the
/// reader's, and loom would try no other order.
fn race(
    write: impl Fn(&Stack<u8>) + Send + Sync + 'static,
    read: impl Fn(&Stack<u8>) + Copy + Send + Sync + 'static,
) -> usize {
    let orders = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = orders.clone();
    loom::model(move || {
        counted.fetch_add(1, Relaxed);
        let stack: Arc<Stack<u8>> = Arc::new(Stack::new());
        let reader = {
            let stack = stack.clone();
            thread::spawn(move || read(&stack))
        };
        write(&stack);
        reader.join().expect("reader");
    });
    orders.load(Relaxed)
}

fn push(stack: &Stack<u8>, action: Action, tick: u64) {
    stack.room().expect("room").push(action, ptr::null(), || tick);
}

/// Checks that a reader never sees a mixture of two scopes that used the same frame one after the
/// other.
#[test]
fn a_reader_sees_whole_frames() {
    let (a, b) = (Action::new("loom-a"), Action::new("loom-b"));
    let write = move |stack: &Stack<u8>| {
        push(stack, a, 1);
        assert!(stack.pop(a, 2).is_some());
        push(stack, b, 3);
    };
    let read = move |stack: &Stack<u8>| {
        for open in stack.open() {
            let expected = if open.action == a { 1 } else { 3 };
            assert_eq!(open.started, expected, "{:?}", open.action);
        }
    };
    let orders = race(write, read);
    assert!(orders > 50, "{orders} orders");
}
