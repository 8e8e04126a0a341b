//! Tests the counts of actions while a client follows the process.

use mlprof_events::live::{Answer, ProcessState, Request};

use crate::asking::{Connection, Program, wait_until};

fn follow(program: &Program) -> Connection {
    let connection = program.connect();
    connection.ask(Request::Follow { interval_milliseconds: 50, actions: true });
    connection
}

/// Reads states until one satisfies the condition, and returns it.
fn until(connection: &mut Connection, is_so: impl Fn(&ProcessState) -> bool) -> ProcessState {
    for _ in 0..1000 {
        match connection.answer() {
            Some(Answer::State(state)) if is_so(&state) => return state,
            Some(Answer::State(_)) => {}
            other => panic!("no state but {other:?}"),
        }
    }
    panic!("it never came to that");
}

pub fn actions_are_counted_while_somebody_follows() {
    let mut program = Program::start("none");
    program.steps(3);
    assert_eq!(program.state().activity, None, "nobody has asked");
    let mut connection = follow(&program);
    until(&mut connection, |state| state.activity.is_some());
    program.steps(5);
    let state = until(&mut connection, |state| state.trainings[0].steps == 8);
    let activity = state.activity.as_ref().expect("followed");
    let [row] = &activity.actions[..] else { panic!("one action: {activity:?}") };
    assert_eq!(
        (row.name.as_str(), row.around, row.calls, row.stage_calls),
        ("training_step", None, 5, 5)
    );
    assert_eq!((activity.steps, activity.left_out), (5, 0));
    assert_eq!(state.trainings[0].waiting_for_data, Some(0.0));
    let memory = state.memory.expect("on Linux");
    assert!(memory.resident_bytes > 0 && memory.peak_bytes >= memory.resident_bytes);
    // Open actions of a thread are visible before they end.
    let file = program.folder.path().join("go on");
    program.tell(&format!("in {}", file.display()));
    let inside = |state: &ProcessState| {
        state.activity.iter().flat_map(|it| &it.threads).any(|thread| {
            thread.open == 2
                && thread.action.as_deref() == Some("waiting")
                && thread.thread == "main"
        })
    };
    let state = until(&mut connection, inside);
    std::fs::write(&file, "").expect("written");
    program.await_done();
    let activity = state.activity.expect("followed");
    assert!(activity.actions.iter().any(|it| it.name == "waiting" && it.around == Some(0)));
    drop(connection);
    // The process detects the disconnected client when the next answer cannot be written. It then
    // requests no more events.
    let (status, text, _) = program.end();
    assert!(status.success(), "{text}");
    assert!(text.contains("ops were wanted: false"), "{text}");
}

pub fn nothing_is_wanted_afterwards() {
    let mut program = Program::start("none");
    let mut connection = follow(&program);
    until(&mut connection, |state| state.activity.is_some());
    program.tell("wanted");
    assert_eq!(program.line(), "wanted now: Interest(ACTIONS)");
    program.await_done();
    drop(connection);
    let wanted = std::cell::RefCell::new(program);
    wait_until(|| {
        let mut program = wanted.borrow_mut();
        program.tell("wanted");
        let line = program.line();
        program.await_done();
        line == "wanted now: Interest()"
    });
    let program = wanted.into_inner();
    // A second follower starts with new counts.
    let mut connection = follow(&program);
    let state = until(&mut connection, |state| state.activity.is_some());
    assert_eq!(state.activity.expect("followed").actions, []);
    drop(connection);
    assert!(program.end().0.success());
}

/// All slots are taken by clients that request one state per hour.
pub fn a_disconnected_follower_frees_its_place() {
    let mut program = Program::start("none");
    for _ in 0..16 {
        let mut connection = program.connect();
        connection.ask(Request::Follow { interval_milliseconds: 3_600_000, actions: true });
        assert!(matches!(connection.answer(), Some(Answer::State(_))));
    }
    wait_until(|| program.connect().is_heard());
    let wanted = std::cell::RefCell::new(&mut program);
    wait_until(|| {
        let mut program = wanted.borrow_mut();
        program.tell("wanted");
        let line = program.line();
        program.await_done();
        line == "wanted now: Interest()"
    });
    assert!(program.end().0.success());
}
