//! Tests of the names, kinds and locations of actions, interned by one thread and by several
//! threads.

use super::*;

#[test]
fn the_same_name_is_the_same_action_by_every_road() {
    static SITE: Callsite = Callsite::action_named("roads");
    let literal: Action = "roads".into();
    assert_eq!(literal, Action::new("roads"));
    assert_eq!(literal, Action::from(String::from("roads")));
    assert_eq!(literal, SITE.action());
    assert_eq!(literal, SITE.action(), "resolved once, then read");
    assert_eq!(literal.name(), "roads");
    assert_eq!(literal.kind(), ActionKind::Action);
}

#[test]
fn location_and_kind_tell_functions_of_one_name_apart() {
    let here = SourceLocation { file: "a.rs", line: 1 };
    let there = SourceLocation { file: "a.rs", line: 2 };
    let first = Action::with_location(ActionKind::Function, "forward", here);
    let second = Action::with_location(ActionKind::Function, "forward", there);
    assert_ne!(first, second);
    assert_ne!(first, Action::new("forward"));
    assert_eq!(second.location(), Some(there));
}

#[test]
fn a_resumed_action_is_another_action_of_the_same_name() {
    let function = Action::of_kind(ActionKind::Function, "goes_on", None);
    let resumption = function.resumption();
    assert_ne!(function, resumption);
    assert_eq!((resumption.name(), resumption.kind()), ("goes_on", ActionKind::Function));
    assert_eq!((resumption.resumed(), function.resumed()), (Some(function), None));
    assert_eq!(function.resumption(), resumption);
}

#[test]
fn awkward_names_survive() {
    let long = "x".repeat(10_000);
    for name in ["", "\n", "\t", "🔥 emoji", "nul\0", long.as_str()] {
        assert_eq!(Action::new(name).name(), name);
        assert_eq!(Action::new(name), Action::new(name));
    }
}

/// Checks that an action's kind and name can be read while the lock is held. Several profilers read
/// them at each start and stop.
#[test]
fn actions_are_readable_while_names_are_locked() {
    let op = Action::op("told while locked");
    let _locked = INTERNER.write().unwrap_or_else(PoisonError::into_inner);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send((op.kind(), op.name(), op.location())));
    let long = std::time::Duration::from_secs(20);
    let told = told.recv_timeout(long).expect("no lock is waited for");
    assert_eq!(told, (ActionKind::Op, "told while locked", None));
}

#[test]
fn a_number_that_no_action_has_stands_for_none_of_them() {
    let unknown = Action::from_number(u32::MAX).expect("not 0");
    assert_eq!(unknown.name(), WITHIN.name);
}

#[test]
fn threads_that_intern_at_once_agree() {
    let names: Vec<String> = (0..200).map(|i| format!("interned-{i}")).collect();
    let all: Vec<Vec<Action>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| names.iter().map(Action::from).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(all[0].iter().zip(&names).all(|(action, name)| action.name() == name));
}
