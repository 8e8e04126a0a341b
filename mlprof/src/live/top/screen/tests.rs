use std::time::Duration;

use mlprof_events::live::{ActionState, Activity, CounterState, MemoryState, ThreadState, VERSION};
use mlprof_events::{ActionKind, Stage};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::view::Order;
use super::*;

fn action(name: &str, around: Option<usize>, calls: u64, seconds: f64) -> ActionState {
    ActionState {
        name: name.to_owned(),
        kind: ActionKind::Action,
        around,
        calls,
        seconds,
        stage_calls: calls,
        stage_seconds: seconds,
        p50_seconds: Some(seconds / calls as f64),
        p99_seconds: None,
    }
}

fn state(process: u32) -> ProcessState {
    let training = TrainingState {
        stage: Some(Stage::Fit),
        rank: 1,
        world_size: 2,
        epoch: Some(2),
        epochs: Some(10),
        steps: 1203,
        seconds: 60.0,
        is_paused: false,
        last_steps: vec![0.02, 0.03, 0.04, 0.01],
        epoch_step: Some(3),
        epoch_steps: Some(400),
        samples_per_second: Some(1280.0),
        waiting_for_data: Some(0.25),
        loss: Some(0.125),
    };
    let actions = vec![
        action("train_dataloader_next", None, 4, 0.025),
        action("run_training_batch", None, 4, 0.07),
        action("backward", Some(1), 8, 0.02),
        action("[module]Linear: head", Some(1), 4, 0.04),
    ];
    let thread = ThreadState { thread: "main".into(), open: 0, action: None, seconds: None };
    let counters = vec![CounterState {
        device: 0,
        counter: "utilization".into(),
        value: 87.0,
        unit: "%".into(),
    }];
    ProcessState {
        version: VERSION,
        process,
        namespace: None,
        program: "digits".into(),
        profilers: Vec::new(),
        is_recording: false,
        trainings: vec![training],
        memory: Some(MemoryState { resident_bytes: 300 << 20, peak_bytes: 400 << 20 }),
        activity: Some(Activity {
            steps: 4,
            actions,
            left_out: 7,
            threads: vec![thread],
            counters,
        }),
        parent: None,
        launch: None,
    }
}

fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| draw(view, frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn view() -> View {
    let mut view = View::default();
    view.hear(4711.into(), state(4711));
    view
}

#[test]
fn everything_is_on_a_screen_of_80_by_24() {
    let lines = drawn(&view(), 80, 24);
    assert_eq!(lines[0], "digits (4711)");
    assert_eq!(
        lines[1],
        "fit  epoch 3/10  step 3/400  2:39 left  loss 0.1250  waiting for data 25%"
    );
    assert_eq!(lines[2], "memory 300 MiB, at most 400 MiB  1 thread with actions  GPU 0 87%");
    assert_eq!(lines[3], "steps  40.0/s  1280 samples/s  p50 20.000 ms  p99 40.000 ms");
    // Four steps are drawn over two lines; the third step is the longest.
    assert_eq!(lines[5].chars().take(4).filter(|it| *it == '█').count(), 3, "{lines:?}");
    let name = |line: &String| line.split("  ").find(|it| !it.is_empty()).unwrap_or("").to_owned();
    let names: Vec<_> = lines[6..12].iter().map(name).collect();
    let expected = [
        "ACTION",
        "run_training_batch",
        "[module]Linear: head",
        "backward",
        "train_dataloader_next",
    ];
    assert_eq!(names[..5], expected);
    assert!(lines[8].starts_with("  [module]") && lines[7].ends_with("70%"), "{lines:?}");
    assert_eq!(names[5], "7 calls of other actions");
    assert_eq!(lines[23], "q quit  ? help  s sort: time  r record");
}

/// Twenty hooks without an implementation take one row each, and almost no time.
#[test]
fn actions_below_a_share_are_counted_unless_all_are_asked_for() {
    let mut view = view();
    let mut busy = state(4711);
    let activity = busy.activity.as_mut().expect("it is followed");
    let hook = |number: usize| action(&format!("[Callback]Hook.{number}"), Some(1), 4, 1e-6);
    activity.actions.extend((0..20).map(hook));
    activity.actions.push(action("validation_step", None, 4, 0.011));
    view.hear(busy.process.into(), busy);
    let lines = drawn(&view, 80, 24);
    assert!(lines.iter().any(|it| it.starts_with("validation_step")), "{lines:?}");
    assert!(!lines.iter().any(|it| it.contains("Hook")), "{lines:?}");
    let count = "20 more below 0.1 % of the steps (press a to show them)";
    assert!(lines.iter().any(|it| it == count), "{lines:?}");
    view.shows_all = true;
    let lines = drawn(&view, 80, 40);
    assert_eq!(lines.iter().filter(|it| it.contains("Hook")).count(), 20, "{lines:?}");
    assert!(!lines.iter().any(|it| it.contains("more below")), "{lines:?}");
}

#[test]
fn parents_of_shown_rows_are_shown() {
    let mut view = view();
    let mut busy = state(4711);
    let activity = busy.activity.as_mut().expect("it is followed");
    // The action `epoch` spans several steps and has not ended in the last ones.
    activity.actions = vec![action("epoch", None, 1, 0.0), action("batch", Some(0), 4, 0.07)];
    view.hear(busy.process.into(), busy);
    let lines = drawn(&view, 80, 24);
    assert!(lines[7].starts_with("epoch") && lines[8].starts_with("  batch"), "{lines:?}");
}

/// An action that is already open when following begins has an unknown parent.
#[test]
fn rows_that_also_stand_inside_of_others_come_last_in_a_section() {
    let mut view = view();
    let mut busy = state(4711);
    let activity = busy.activity.as_mut().expect("it is followed");
    // This row would be first by time, by calls and by name.
    activity.actions.push(action("backward", None, 9, 0.2));
    view.hear(busy.process.into(), busy);
    let expected = [
        "run_training_batch",
        "  [module]Linear: head",
        "  backward",
        "train_dataloader_next",
        "also inside other actions:",
        "backward",
    ];
    let names = |lines: &[String]| -> Vec<String> {
        let name = |line: &String| {
            let name = line.trim_start().split("  ").next().unwrap_or_default();
            " ".repeat(line.len() - line.trim_start().len()) + name
        };
        lines[7..7 + expected.len()].iter().map(name).collect()
    };
    assert_eq!(names(&drawn(&view, 80, 24)), expected);
    for order in [Order::Calls, Order::Name] {
        view.order = order;
        assert_eq!(names(&drawn(&view, 80, 24))[4..], expected[4..], "{order:?}");
    }
    (0..9).for_each(|_| view.scroll(true));
    let lines = drawn(&view, 80, 24);
    assert!(lines[7] == expected[4] && lines[8].starts_with("backward "), "{lines:?}");
    view.shows_help = true;
    assert!(drawn(&view, 80, 24).iter().any(|it| it.contains("open when top began")));
}

#[test]
fn rows_without_room_are_omitted() {
    for (width, height) in [(200, 60), (40, 10), (20, 5), (10, 2), (1, 1)] {
        for shows_help in [false, true] {
            let mut view = View { shows_help, ..view() };
            view.hear(4712.into(), state(4712));
            let lines = drawn(&view, width, height);
            assert!(lines.iter().any(|it| !it.is_empty()), "{width} × {height}");
        }
    }
    let lines = drawn(&view(), 40, 10);
    assert!(lines[4].starts_with("ACTION") && lines[5].starts_with("run_tra…"), "{lines:?}");
    assert_eq!(drawn(&View::default(), 80, 24)[0], "no training of this user can be inspected");
    let waits = View { unanswered: 2, ..View::default() };
    assert_eq!(drawn(&waits, 80, 24)[0], "processes that have not answered yet: 2");
}

#[test]
fn actions_can_be_sorted_and_processes_turned_to() {
    let mut view = view();
    view.order = Order::Calls;
    let lines = drawn(&view, 80, 24);
    assert!(lines[8].starts_with("  backward"), "it is called most: {lines:?}");
    view.order = Order::Name;
    view.scrolled = 1;
    let lines = drawn(&view, 80, 24);
    assert!(lines[7].starts_with("  [module]Linear"), "{lines:?}");
    view.hear(4712.into(), state(4712));
    view.turn(true);
    view.has_ended(4712.into());
    let lines = drawn(&view, 80, 24);
    assert_eq!(lines[0], "[4712 digits rank 1] 4711 digits rank 1");
    assert!(lines[1].ends_with("ended (last known state)"), "{lines:?}");
    view.turn(false);
    view.look_at_clock(Duration::ZERO);
    assert!(drawn(&view, 80, 24)[1].ends_with("not answering (last known state)"));
    view.hear(4711.into(), state(4711));
    assert!(!drawn(&view, 80, 24)[1].contains("not answering"));
    assert_eq!((view.chosen, view.scrolled), (0, 0));
    view.shows_help = true;
    assert!(drawn(&view, 80, 24).iter().any(|it| it.contains("record 5 steps")));
}

#[test]
fn other_things_are_below_the_steps_where_they_are_asked_for() {
    let mut view = view();
    view.show(Body::Threads);
    let mut busy = state(4711);
    let activity = busy.activity.as_mut().expect("it is followed");
    let thread = ThreadState {
        thread: "loader".into(),
        open: 3,
        action: Some("decode".into()),
        seconds: Some(0.5),
    };
    activity.threads.push(thread);
    view.hear(4711.into(), busy);
    let lines = drawn(&view, 80, 24);
    assert!(lines[6].starts_with("THREAD") && lines[7].starts_with("main                 -"));
    assert!(lines[8].starts_with("loader               decode, inside 2 more"), "{lines:?}");
    assert!(lines[8].ends_with("0.500 s"), "{lines:?}");

    view.show(Body::Processes);
    let mut first = state(4712);
    first.trainings[0].rank = 0;
    view.hear(4712.into(), first);
    let lines = drawn(&view, 80, 24);
    let (zero, one) = (&lines[8], &lines[9]);
    assert!(zero.trim_start().starts_with("0/2    4712 fit"), "by rank: {lines:?}");
    assert!(one.trim_start().starts_with("1/2    4711 fit           3/10    1203    40.0"));
    assert!(one.ends_with("20.000    40.000  25%   300"), "{one}");
    view.has_ended(4712.into());
    assert!(drawn(&view, 80, 24)[8].contains("4712 ended"));

    view.show(Body::Findings);
    assert!(drawn(&view, 80, 24)[7].starts_with("requesting the current report"));
    view.found(4711.into(), Err("no profiler measures".into()));
    assert!(drawn(&view, 80, 24)[7].starts_with("no profiler measures"));
    view.found(4711.into(), Ok(vec!["One thing. Do this.".into(), "another thing ".repeat(9)]));
    let lines = drawn(&view, 80, 24);
    assert_eq!((lines[7].as_str(), lines[8].as_str()), ("One thing. Do this.", ""));
    assert!(lines[9].starts_with("another") && lines[10].contains("thing"), "it is wrapped");
    view.scroll(true);
    assert!(drawn(&view, 80, 24)[7].starts_with("another"), "one finding further");
    view.show(Body::Findings);
    assert_eq!((view.body, view.scrolled), (Body::Actions, 0), "the same key leaves it");
}
