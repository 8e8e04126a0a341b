//! Tests recordings on demand, and events that interrupt them.

use std::time::Duration;

use mlprof_events::Stage;
use mlprof_events::live::{Answer, Request};

use crate::asking::{Connection, Program, milliseconds, slices, steps};

/// Requests a recording and waits until the process has received the request.
fn ask(program: &Program, request: mlprof_events::live::RecordRequest) -> Connection {
    let connection = program.connect();
    connection.ask(Request::Record(request));
    program.wait_until(|state| state.is_recording);
    connection
}

pub fn steps_are_recorded_beside_no_profiler() {
    let mut program = Program::start("none");
    program.steps(10);
    let state = program.state();
    assert_eq!(state.profilers, [""; 0]);
    let [training] = &state.trainings[..] else { panic!("{state:?}") };
    assert_eq!((training.stage, training.steps), (Some(Stage::Fit), 10));
    assert_eq!(training.last_steps.len(), 10);

    let mut connection = ask(&program, steps(3));
    // One step begins the recording, one warms up, and three are recorded.
    program.steps(10);
    let (recorded, trace) = connection.recorded();
    assert_eq!((recorded.steps, recorded.ops, recorded.dropped), (3, 6, 0), "{recorded:?}");
    assert_eq!(recorded.notes, [""; 0]);
    assert_eq!(slices(&trace, "training_step"), 3);
    assert_eq!(slices(&trace, "aten::mm"), 6);
    // The trace has the program's step numbers. Ten steps were over, one began the recording, and
    // one warmed up.
    for step in ["ProfilerStep#12", "ProfilerStep#13", "ProfilerStep#14"] {
        assert_eq!(slices(&trace, step), 1, "{step}");
    }
    assert!(!program.state().is_recording);
    let (status, said, errors) = program.end();
    assert!(status.success(), "{errors}");
    assert!(said.contains("ops were wanted: true\nwanted last: Interest()\nops: 40\n"), "{said}");
    assert_eq!(errors, "", "whoever has no profiler hears nothing of it");
}

pub fn a_profiler_is_not_disturbed() {
    let mut program = Program::start("simple");
    program.steps(4);
    assert_eq!(program.state().profilers, ["simple"]);
    let mut connection = program.connect();
    connection.ask(Request::Report);
    let Some(Answer::Report { reports }) = connection.answer() else { panic!("no report") };
    let rows = reports[0]["actions"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["action"] == "training_step").expect("a row");
    assert_eq!(row["calls"], 4, "so far");

    let without_ops = mlprof_events::live::RecordRequest { ops: false, ..steps(2) };
    let mut connection = ask(&program, without_ops);
    program.steps(6);
    let (recorded, trace) = connection.recorded();
    assert_eq!((recorded.steps, recorded.ops), (2, 0));
    assert_eq!((slices(&trace, "training_step"), slices(&trace, "aten::mm")), (2, 0));
    let (_, said, errors) = program.end();
    assert!(said.contains("calls: 10\nops were wanted: false\nwanted last: Interest()"), "{said}");
    assert_eq!(errors, "");
}

pub fn a_schedule_of_its_own_is_not_changed() {
    let mut program = Program::start("tensor");
    let mut connection = ask(&program, steps(2));
    program.steps(1);
    // Both the program's own profiler and the recording contain steps 2 and 3.
    program.steps(9);
    let (recorded, trace) = connection.recorded();
    assert_eq!((recorded.steps, recorded.ops), (2, 4));
    assert_eq!((slices(&trace, "ProfilerStep#2"), slices(&trace, "ProfilerStep#3")), (1, 1));
    let (_, said, _) = program.end();
    assert!(said.contains("calls: 4\n"), "the ops of its own two steps: {said}");
}

pub fn a_second_request_is_told_to_wait() {
    let mut program = Program::start("none");
    let mut first = ask(&program, steps(1));
    let mut second = program.connect();
    second.ask(Request::Record(steps(1)));
    let error = second.error();
    let (process, own) = (program.child.id(), std::process::id());
    let holder = format!("cannot record: a recording requested by mlprof record (process {own}) ");
    assert!(error.starts_with(&holder), "{error}");
    let remedy = format!("try again later, or cancel it with `mlprof record {process} --cancel`");
    assert!(error.ends_with(&remedy), "{error}");
    program.steps(5);
    assert_eq!(first.recorded().0.steps, 1, "the first one goes on");
    second.ask(Request::Record(steps(1)));
    program.wait_until(|state| state.is_recording);
    program.steps(5);
    assert_eq!(second.recorded().0.steps, 1, "and then it is the other one's turn");
}

/// A recording that waits for an unreachable step must not block others forever.
pub fn the_user_cancels_a_recording() {
    let mut program = Program::start("none");
    let never = mlprof_events::live::RecordRequest { first_step: Some(2_000_000_000), ..steps(1) };
    let mut waits = ask(&program, never);
    let mut user = program.connect();
    let mut cancel = || {
        user.ask(Request::Cancel);
        match user.answer() {
            Some(Answer::Cancelled { recording }) => recording,
            other => panic!("it is not cancelled but {other:?}"),
        }
    };
    let told = cancel().expect("it waits");
    let requested = format!("requested by mlprof record (process {}) ", std::process::id());
    assert!(told.starts_with(&requested) && told.ends_with(" s ago"), "{told}");
    assert_eq!(waits.error(), "the recording has no trace: the user cancelled the recording");
    assert_eq!(cancel(), None);
    // A cancelled recording that has begun delivers its data so far.
    let mut begun = ask(&program, steps(100));
    program.steps(5);
    assert!(cancel().is_some());
    let (recorded, _) = begun.recorded();
    assert_eq!(
        (recorded.steps, recorded.notes[0].as_str()),
        (3, "the user cancelled the recording")
    );
    let (_, said, errors) = program.end();
    assert!(said.contains("wanted last: Interest()"), "{said}");
    assert_eq!(errors, "");
}

pub fn a_step_that_was_missed_is_said() {
    let mut program = Program::start("none");
    program.steps(4);
    let exactly = |first| mlprof_events::live::RecordRequest {
        first_step: Some(first),
        exactly: true,
        ..steps(2)
    };
    let mut early = ask(&program, exactly(8));
    program.steps(20);
    let (recorded, trace) = early.recorded();
    assert_eq!((recorded.steps, recorded.first_step), (2, Some(8)));
    assert_eq!((slices(&trace, "ProfilerStep#8"), slices(&trace, "ProfilerStep#9")), (1, 1));
    let mut late = ask(&program, exactly(8));
    program.steps(1);
    let error = late.error();
    let expected =
        "the recording has no trace: cannot begin at step 8: the training is already at step 25";
    assert_eq!(error, expected);
    assert!(!program.state().is_recording);
    let (_, said, _) = program.end();
    assert!(said.contains("wanted last: Interest()"), "{said}");
}

pub fn a_stage_that_ends_ends_the_recording() {
    let mut program = Program::start("none");
    let mut connection = ask(&program, steps(100));
    program.steps(6);
    program.tell("end");
    let (recorded, trace) = connection.recorded();
    // The step that begins the recording and the warmup step are not included.
    assert_eq!((recorded.steps, slices(&trace, "training_step")), (4, 4));
    assert_eq!(
        recorded.notes,
        ["the stage ended during the recording", "the recording has only 4 of 100 steps"]
    );
    let (_, said, _) = program.end();
    assert!(said.contains("wanted last: Interest()"), "{said}");
}

pub fn a_validation_is_not_recorded() {
    let mut program = Program::start("none");
    let mut connection = ask(&program, steps(2));
    program.steps(3);
    program.tell("validate");
    program.await_done();
    program.steps(5);
    let (recorded, trace) = connection.recorded();
    assert_eq!((recorded.steps, recorded.ops), (2, 4));
    assert_eq!(slices(&trace, "validation"), 0);
}

pub fn a_step_longer_than_the_request() {
    let mut program = Program::start("none");
    program.steps(2);
    let go = program.folder.path().join("go");
    program.tell(&format!("in {}", go.display()));
    let mut connection = program.connect();
    connection.ask(Request::Record(milliseconds(50)));
    let (recorded, trace) = connection.recorded();
    assert_eq!(recorded.steps, 0);
    assert_eq!(
        recorded.notes,
        ["the recording has no steps, because no step began in the requested time"]
    );
    assert!(slices(&trace, "waiting") > 0, "what happened meanwhile is in it");
    std::fs::write(&go, "").expect("written");
    program.await_done();
    let (_, said, _) = program.end();
    assert!(said.contains("wanted last: Interest()"), "{said}");
}

pub fn a_last_step_that_does_not_end() {
    let mut program = Program::start("none");
    let mut connection = ask(&program, milliseconds(3000));
    program.steps(3);
    let go = program.folder.path().join("go");
    program.tell(&format!("in {}", go.display()));
    let (recorded, trace) = connection.recorded();
    assert_eq!(recorded.steps, 2, "{recorded:?}");
    assert_eq!(
        recorded.notes,
        ["the last step is incomplete, because it took longer than the requested time"]
    );
    assert_eq!(slices(&trace, "aten::mm"), 0, "ops were not asked for");
    std::fs::write(&go, "").expect("written");
    program.await_done();
}

pub fn whole_steps_of_a_time() {
    let mut program = Program::start("none");
    let mut connection = ask(&program, milliseconds(2000));
    // The recording contains the steps within the time, and ends with the first step that ends
    // after it.
    program.steps(3);
    std::thread::sleep(Duration::from_millis(2100));
    program.steps(1);
    let (recorded, trace) = connection.recorded();
    assert_eq!((recorded.steps, recorded.notes.len()), (3, 0), "{recorded:?}");
    assert_eq!(slices(&trace, "training_step"), 3);
}

pub fn a_disconnect_cancels_the_recording() {
    let mut program = Program::start("none");
    let connection = ask(&program, steps(100));
    program.steps(3);
    drop(connection);
    program.wait_until(|state| !state.is_recording);
    program.steps(3);
    let mut connection = ask(&program, steps(1));
    program.steps(3);
    assert_eq!(connection.recorded().0.steps, 1, "and somebody else may ask");
    let (_, said, errors) = program.end();
    assert!(said.contains("ops were wanted: true\nwanted last: Interest()"), "{said}");
    assert_eq!(errors, "");
}
