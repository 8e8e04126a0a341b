//! The stack read by one thread while another writes it, in every order that they can run in.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use loom::sync::Arc;
use loom::thread;

/// Runs `read` on a thread of its own and `write` beside it, in every order; answers how many
/// there were.
///
/// The reader is the spawned thread because loom remembers only the last access to an atomic: after
/// a reader's load, the load with which a single writer begins its own change would hide it, and
/// no other order would be tried.
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

/// A reader never sees a mixture of two scopes that used the same frame one after the other.
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
