use std::thread;
use std::time::Duration;

use mlprof_core::Action;

use super::*;

/// Returns a followed process and its tallies.
fn followed() -> (Arc<Followed>, Arc<Tallies>) {
    let followed = Arc::new(Followed::default());
    let tallies = followed.begin();
    (followed, tallies)
}

fn call(followed: &Followed, action: &str, inside: impl FnOnce()) {
    let action = Action::new(action);
    followed.start(action);
    inside();
    followed.stop(action);
}

fn calls(tallies: &Tallies) -> Vec<(String, Option<usize>, u64, u64)> {
    let told = tallies.activity().actions.into_iter();
    told.map(|it| (it.name, it.around, it.calls, it.stage_calls)).collect()
}

#[test]
fn actions_are_told_apart_by_what_is_around_them() {
    let (followed, tallies) = followed();
    call(&followed, "batch", || call(&followed, "layer", || {}));
    call(&followed, "layer", || {});
    call(&followed, "batch", || call(&followed, "layer", || {}));
    let expected = [("batch", None, 2, 2), ("layer", Some(0), 2, 2), ("layer", None, 1, 1)];
    assert_eq!(
        calls(&tallies),
        expected.map(|(name, around, a, b)| (name.to_owned(), around, a, b))
    );
    let [batch, layer, _] = &tallies.activity().actions[..] else { panic!("three") };
    assert!(batch.seconds >= layer.seconds && layer.seconds > 0.0, "{batch:?} {layer:?}");
    assert!(batch.p50_seconds <= batch.p99_seconds && batch.p50_seconds.is_some());
}

#[test]
fn actions_begun_before_the_first_client_are_not_counted() {
    let (followed, tallies) = followed();
    followed.stop(Action::new("begun before"));
    assert_eq!(calls(&tallies), []);
    // An inner action that never ended must not become the parent of later ones.
    call(&followed, "outer", || followed.start(Action::new("forgotten")));
    call(&followed, "next", || {});
    let told = tallies.activity().actions;
    let next = told.iter().find(|it| it.name == "next").expect("it is there");
    assert_eq!((next.around, next.calls), (None, 1));
}

#[test]
fn only_the_last_steps_and_the_stage_are_looked_at() {
    let (followed, tallies) = followed();
    for _ in 0..1000 {
        call(&followed, "step of many", || {});
        tallies.step();
    }
    let activity = tallies.activity();
    assert!(
        (LAST_STEPS - STEPS_OF_A_PART..=LAST_STEPS + STEPS_OF_A_PART).contains(&activity.steps)
    );
    let row = &activity.actions[0];
    assert_eq!((row.calls, row.stage_calls), (activity.steps, 1000));
    assert!(lock(&tallies.marks).last.len() as u64 <= LAST_STEPS / STEPS_OF_A_PART + 1);
    tallies.stage_begins();
    call(&followed, "step of many", || {});
    tallies.step();
    let activity = tallies.activity();
    let row = &activity.actions[0];
    assert_eq!((activity.steps, row.calls, row.stage_calls), (1, 1, 1));
}

/// Each follower starts with new counts, and counting stops when the last one leaves.
#[test]
fn only_who_follows_now_is_told() {
    let (followed, before) = followed();
    call(&followed, "first", || {});
    followed.end();
    call(&followed, "nobody looks", || assert!(!followed.is_open(Action::new("nobody looks"))));
    assert!(followed.take_waited().is_none());
    let after = followed.begin();
    let second = Action::new("second");
    call(&followed, "second", || assert!(followed.is_open(second)));
    assert_eq!(calls(&before), [("first".to_owned(), None, 1, 1)]);
    assert_eq!(calls(&after), [("second".to_owned(), None, 1, 1)]);
}

#[test]
fn threads_that_end_leave_what_they_did() {
    let (followed, tallies) = followed();
    let worker = |inside: fn(&Arc<Tallies>)| {
        let (followed, tallies) = (followed.clone(), tallies.clone());
        thread::spawn(move || call(&followed, "load", || inside(&tallies)))
    };
    for _ in 0..3 {
        let names: fn(&Arc<Tallies>) = |tallies| {
            let threads = tallies.activity().threads;
            let [it] = &threads[..] else { panic!("one thread: {threads:?}") };
            assert_eq!((it.open, it.action.as_deref()), (1, Some("load")));
            assert!(it.seconds.is_some());
        };
        worker(names).join().expect("no panic");
    }
    assert_eq!(calls(&tallies), [("load".to_owned(), None, 3, 3)]);
    assert_eq!(tallies.activity().threads, [], "they are gone");
}

#[test]
fn waiting_for_data_is_known_by_its_name_and_counted_once() {
    let (followed, tallies) = followed();
    let wait = || thread::sleep(Duration::from_millis(2));
    call(&followed, "[_TrainingEpochLoop].train_dataloader_next", || {
        call(&followed, "train_dataloader_next", wait);
    });
    let waited = tallies.here(super::thread::Table::take_waited).expect("this thread");
    assert_eq!(waited, tallies.sums().0[0].ticks);
    call(&followed, "train_dataloader_next", wait);
    let waited = followed.take_waited().expect("this thread");
    assert!(waited >= Duration::from_millis(2));
    call(&followed, "training_step", wait);
    assert_eq!(followed.take_waited(), Some(Duration::ZERO), "that was work");
}

#[test]
fn calls_that_there_is_no_room_for_are_counted() {
    let (followed, tallies) = followed();
    for number in 0..places::MOST_PLACES + 3 {
        call(&followed, &format!("one of many {number}"), || {});
    }
    let activity = tallies.activity();
    assert_eq!((activity.actions.len(), activity.left_out), (places::MOST_PLACES, 3));
}
