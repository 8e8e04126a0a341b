//! Opening and closing scopes in every order.

use super::*;

fn stack_and_actions() -> (Stack<u8>, Action, Action, Action) {
    (Stack::new(), Action::new("stack-a"), Action::new("stack-b"), Action::new("stack-c"))
}

#[test]
fn the_time_of_inner_scopes_is_known_to_the_outer() {
    let (stack, a, b, _) = stack_and_actions();
    stack.push_any(a, ptr::null(), true, || 10);
    stack.push_any(b, ptr::null(), true, || 20);
    assert_eq!(stack.pop(b, 50).map(|closed| (closed.elapsed, closed.children)), Some((30, 0)));
    assert_eq!(stack.pop(a, 100).map(|closed| (closed.elapsed, closed.children)), Some((90, 30)));
    assert_eq!(stack.take_outermost_time(), 90);
    assert!(stack.is_empty());
}

#[test]
fn very_deep_stacks_come_back_to_empty() {
    let (stack, a, ..) = stack_and_actions();
    for tick in 1..=100_000 {
        stack.push_any(a, ptr::null(), true, || tick);
    }
    assert_eq!(stack.open().len(), 100_000);
    assert!(stack.room().is_none());
    for tick in (1..=100_000).rev() {
        let closed = stack.pop_any(a, 100_001, |_| ()).expect("open");
        assert_eq!((closed.started, closed.elapsed), (tick, 100_001 - tick));
    }
    assert!(stack.is_empty() && stack.room().is_some());
}

#[test]
fn an_outer_scope_may_end_while_very_deep_ones_are_open() {
    let (stack, a, b, _) = stack_and_actions();
    stack.push_any(b, ptr::null(), true, || 1);
    for tick in 2..=500 {
        stack.push_any(a, ptr::null(), true, || tick);
    }
    let detached = std::cell::Cell::new(0);
    let closed = stack.pop_any(b, 501, |_| detached.set(detached.get() + 1)).expect("open");
    assert_eq!((closed.started, closed.elapsed, detached.get()), (1, 500, 499));
    assert!(stack.room().is_some());
    assert_eq!(stack.open().len(), 499);
    for _ in 0..499 {
        assert!(stack.pop_any(a, 502, |_| ()).is_some_and(|closed| closed.is_detached));
    }
    assert!(stack.is_empty());
}

#[test]
fn a_scope_that_outlives_the_one_around_it_is_timed_all_the_same() {
    let (stack, a, b, c) = stack_and_actions();
    stack.push_any(a, ptr::null(), true, || 1);
    stack.push_any(b, ptr::null(), true, || 2);
    assert!(stack.pop(a, 5).is_none(), "not the innermost");
    let closed = stack.pop_any(a, 5, |_| ()).expect("open");
    assert_eq!(closed.elapsed, 4);
    stack.push_any(c, ptr::null(), true, || 6);
    assert_eq!(stack.open().len(), 2, "b is detached, c is on the stack");
    assert_eq!(stack.pop(c, 7).map(|closed| closed.elapsed), Some(1));
    let late = stack.pop_any(b, 12, |_| ()).expect("still open");
    assert!(late.is_detached);
    assert_eq!(late.elapsed, 10);
    assert!(stack.pop_any(b, 13, |_| ()).is_none(), "never started");
}
