//! Tests of opening and closing scopes in every order.

use super::*;
use crate::recorder::mapped::shortage;

/// Number of scopes that fills several chunks.
const DEEP: u64 = if cfg!(miri) { 60 } else { 100_000 };

impl Stack<u8> {
    /// Opens a scope. Panics if there is no memory.
    fn push_any(
        &self,
        action: Action,
        record: *const u8,
        is_recursive: bool,
        ticks: impl FnOnce() -> u64,
    ) {
        self.make_room().expect("memory").push_any(action, record, is_recursive, ticks);
    }
}

fn stack_and_actions() -> (Stack<u8>, Action, Action, Action) {
    (Stack::new(), Action::new("stack-a"), Action::new("stack-b"), Action::new("stack-c"))
}

#[test]
fn the_time_of_inner_scopes_is_known_to_the_outer() {
    let (stack, a, b, _) = stack_and_actions();
    stack.push_any(a, ptr::null(), false, || 10);
    stack.push_any(b, ptr::null(), false, || 20);
    assert_eq!(stack.pop(b, 50).map(|closed| (closed.elapsed, closed.children)), Some((30, 0)));
    assert_eq!(stack.pop(a, 100).map(|closed| (closed.elapsed, closed.children)), Some((90, 30)));
    assert_eq!(stack.take_outermost_time(), 90);
    assert!(stack.is_empty());
}

#[test]
fn very_deep_stacks_come_back_to_empty() {
    let (stack, a, ..) = stack_and_actions();
    for tick in 1..=DEEP {
        stack.push_any(a, ptr::null(), false, || tick);
    }
    assert_eq!(stack.open().len() as u64, DEEP);
    for tick in (1..=DEEP).rev() {
        let closed = stack.pop_any(a, DEEP + 1, |_| ()).expect("open");
        assert_eq!((closed.started, closed.elapsed), (tick, DEEP + 1 - tick));
    }
    assert!(stack.is_empty() && stack.room().is_some());
}

#[test]
fn an_outer_scope_may_end_while_very_deep_ones_are_open() {
    let (stack, a, b, _) = stack_and_actions();
    stack.push_any(b, ptr::null(), false, || 1);
    let depth = DEEP.min(499);
    for tick in 2..2 + depth {
        stack.push_any(a, ptr::null(), false, || tick);
    }
    let detached = std::cell::Cell::new(0);
    let closed = stack.pop_any(b, depth + 2, |_| detached.set(detached.get() + 1)).expect("open");
    assert_eq!((closed.started, closed.elapsed, detached.get()), (1, depth + 1, depth));
    assert!(stack.room().is_some());
    assert_eq!(stack.open().len() as u64, depth);
    for _ in 0..depth {
        assert!(stack.pop_any(a, depth + 3, |_| ()).is_some_and(|closed| closed.is_detached));
    }
    assert!(stack.is_empty());
}

#[test]
fn a_scope_that_outlives_the_one_around_it_is_timed_all_the_same() {
    let (stack, a, b, c) = stack_and_actions();
    stack.push_any(a, ptr::null(), false, || 1);
    stack.push_any(b, ptr::null(), false, || 2);
    assert!(stack.pop(a, 5).is_none(), "not the innermost");
    let closed = stack.pop_any(a, 5, |_| ()).expect("open");
    assert_eq!(closed.elapsed, 4);
    stack.push_any(c, ptr::null(), false, || 6);
    assert_eq!(stack.open().len(), 2, "b is detached, c is on the stack");
    assert_eq!(stack.pop(c, 7).map(|closed| closed.elapsed), Some(1));
    let late = stack.pop_any(b, 12, |_| ()).expect("still open");
    assert!(late.is_detached);
    assert_eq!(late.elapsed, 10);
    assert!(stack.pop_any(b, 13, |_| ()).is_none(), "never started");
}

/// Compares scopes closed in a pseudo-random order with a naive list of open scopes.
#[test]
fn any_order_of_stops_is_told_apart_at_every_depth() {
    struct Expected {
        action: Action,
        started: u64,
        children: u64,
    }
    let actions: Vec<Action> = (0..40).map(|n| Action::new(&format!("order-{n}"))).collect();
    let stack: Stack<u8> = Stack::new();
    let (mut open, mut detached): (Vec<Expected>, Vec<Expected>) = (Vec::new(), Vec::new());
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    // Long runs of starts and stops cross several chunks.
    let (steps, way) = if cfg!(miri) { (300, 70) } else { (60_000, 700) };
    for tick in 1..=steps {
        let goes_up = random(10) < if (tick / way) % 2 == 0 { 8 } else { 2 };
        let action = actions[random(actions.len())];
        if goes_up {
            stack.push_any(action, ptr::null(), false, || tick);
            open.push(Expected { action, started: tick, children: 0 });
            continue;
        }
        // Most stops close the innermost scope, as guards do.
        let action = match open.last() {
            Some(innermost) if random(20) > 0 => innermost.action,
            _ => action,
        };
        let closed = stack.pop(action, tick).or_else(|| stack.pop_any(action, tick, |_| ()));
        let closed = closed.map(|closed| (closed.started, closed.children, closed.is_detached));
        let expected = match open.iter().rposition(|scope| scope.action == action) {
            Some(index) => {
                detached.extend(open.drain(index + 1..));
                let scope = open.pop().expect("found");
                if let Some(around) = open.last_mut() {
                    around.children += tick - scope.started;
                }
                Some((scope.started, scope.children, false))
            }
            None => detached.iter().rposition(|scope| scope.action == action).map(|index| {
                let scope = detached.remove(index);
                (scope.started, scope.children, true)
            }),
        };
        assert_eq!(closed, expected, "tick {tick}");
        if tick % (way / 2) == 0 {
            let listed = stack.open();
            let listed_open = listed[..open.len()].iter().map(|scope| scope.started);
            assert!(listed_open.eq(open.iter().map(|scope| scope.started)));
            assert_eq!(listed.len(), open.len() + detached.len());
        }
    }
}

#[test]
fn the_cost_of_a_stop_does_not_grow_with_open_actions() {
    let (stack, a, leaf, never) = stack_and_actions();
    for tick in 0..DEEP {
        stack.push_any(a, ptr::null(), false, || tick);
    }
    let looks_of = |step: &dyn Fn()| {
        let before = looks::count();
        step();
        looks::count() - before
    };
    let stop_never = || assert!(stack.pop_any(never, 1, |_| ()).is_none());
    stop_never();
    assert!(looks_of(&stop_never) <= frames::CHUNK);
    let leaf_scope = || {
        stack.push_any(leaf, ptr::null(), false, || DEEP);
        assert!(stack.pop_any(leaf, DEEP + 1, |_| ()).is_some());
    };
    assert!(looks_of(&leaf_scope) <= 1);
    // The cost also stays constant if the scopes are detached instead of enclosing.
    let outer = Action::new("stack-outer");
    let stack: Stack<u8> = Stack::new();
    stack.push_any(outer, ptr::null(), false, || 0);
    for tick in 0..DEEP {
        stack.push_any(a, ptr::null(), false, || tick);
    }
    assert!(stack.pop_any(outer, DEEP, |_| ()).is_some());
    let stop_never = || assert!(stack.pop_any(never, 1, |_| ()).is_none());
    assert_eq!(looks_of(&stop_never), 0);
    assert_eq!(stack.open().len() as u64, DEEP);
}

/// Checks that missed scopes end before the outer ones, which have the same action. The end of a
/// missed scope must not close an outer scope.
#[test]
fn scopes_without_memory_are_missed_and_end_before_those_around_them() {
    let (stack, a, b, _) = stack_and_actions();
    (0..CHUNK as u64).for_each(|tick| stack.push_any(a, ptr::null(), false, || tick));
    shortage::during(|| {
        (0..3).for_each(|_| assert!(stack.make_room().is_none()));
        assert_eq!(stack.open().len(), CHUNK);
        // The fast path must not close an outer scope meanwhile.
        assert!(stack.pop(a, 1000).is_none() && stack.close_missed());
    });
    // A scope inside a missed scope is missed even if there is memory, because it would be recorded
    // at the wrong depth.
    assert!(stack.make_room().is_none() && stack.close_missed());
    (0..2).for_each(|_| assert!(stack.pop(a, 1000).is_none() && stack.close_missed()));
    assert!(!stack.close_missed(), "all have ended");
    assert_eq!((stack.missed(), stack.open().len()), (4, CHUNK));
    stack.push_any(b, ptr::null(), false, || 1000);
    assert_eq!(stack.pop_any(b, 1010, |_| ()).map(|closed| closed.elapsed), Some(10));
    for tick in (0..CHUNK as u64).rev() {
        let closed = stack.pop(a, 2000).or_else(|| stack.pop_any(a, 2000, |_| ()));
        assert_eq!(closed.map(|closed| closed.started), Some(tick));
    }
    assert!(stack.is_empty());
}
