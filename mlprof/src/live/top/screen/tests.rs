use std::time::Duration;

use mlprof_events::live::{
    ActionState, Activity, CounterState, MemoryState, ThreadState, TrainingState, VERSION,
};
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
        action("[Strategy]SingleDevice.training_step", Some(1), 4, 0.04),
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
        profilers: vec!["simple".into()],
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
    let expected = [
        "digits (process 4711, rank 1 of 2)   fit   profiler: simple",
        "progress    epoch 3 of 10   step 3 of 400   2:39 left   loss 0.1250",
        "step time   median 20.0 ms   99 % below 40.0 ms   40.0 steps/s   1,280 samples/s",
        "step split  waiting for data 25 %   forward 40 %   backward 20 %   other 15 %",
        "memory      300.00 MiB   peak 400.00 MiB   GPU 0 87%",
    ];
    assert_eq!(lines[..5], expected);
    // Four steps are drawn over two lines; the third step is the longest.
    assert_eq!((&lines[5][..12], lines[6].starts_with("steps")), ("last 4      ", true));
    assert_eq!(lines[6].chars().filter(|it| *it == '█').count(), 3, "{lines:?}");
    let expected = [
        "ACTION (4 last steps)                          CALLS   MEDIAN 99% BELOW  OF STEP",
        "run_training_batch                                 4  17.5 ms         -   70.0 %",
        "  [Strategy]SingleDevice.training_step             4  10.0 ms         -   40.0 %",
        "  backward                                         8  2.50 ms         -   20.0 %",
        "train_dataloader_next                              4  6.25 ms         -   25.0 %",
        "7 calls of further actions, which are not listed",
    ];
    assert_eq!(lines[7..13], expected);
    let keys = "q quit  ? help  s sort: time  a all  t threads  f findings  r record";
    assert_eq!(lines[23], keys);
}

#[test]
fn a_wide_screen_has_bars_more_columns_and_the_threads() {
    let lines = drawn(&view(), 120, 40);
    let head = "ACTION (4 last steps)                    CALLS   MEDIAN 99% BELOW  OF STEP STAGE CALLS      TIME";
    assert_eq!(lines[7], head);
    let row = "run_training_batch                           4  17.5 ms         -   70.0 %           4   70.0 ms";
    assert!(lines[8].starts_with(row) && lines[8].contains("  ████"), "{lines:#?}");
    let bar = |line: &str| line.chars().filter(|it| *it == '█').count();
    assert!(bar(&lines[8]) > bar(&lines[9]) && bar(&lines[9]) > bar(&lines[10]), "{lines:#?}");
    let lines = drawn(&view(), 200, 50);
    assert!(lines[7].contains("THREAD") && lines[8].contains("main"), "{lines:#?}");
}

#[test]
fn names_lose_their_middle_and_lines_end_between_words() {
    let mut view = view();
    let mut busy = state(4711);
    let long = "[LightningModule]EncoderDecoder.training_step_of_the_whole_model";
    busy.activity.as_mut().expect("it is followed").actions.push(action(long, None, 4, 0.05));
    busy.profilers = ["simple", "advanced", "tensor"].map(str::to_owned).to_vec();
    busy.program = "sequence-to-sequence-training".into();
    view.hear(4711.into(), busy);
    let lines = drawn(&view, 80, 24);
    let first = "sequence-to-sequence-training (process 4711, rank 1 of 2)   fit";
    assert_eq!(lines[..2], [first, "profilers: simple, advanced, tensor"]);
    let row = lines.iter().find(|it| it.contains('…')).expect("a shortened name");
    assert!(row.starts_with("[LightningModule]Encod…ep_of_the_whole_model  "), "{row}");
}

#[test]
fn a_screen_without_numbers_says_what_it_waits_for() {
    let mut view = view();
    let mut new = state(4711);
    new.trainings[0].last_steps.clear();
    new.activity = None;
    view.hear(4711.into(), new.clone());
    let lines = drawn(&view, 80, 24);
    assert_eq!(lines[2], "step time   no step has ended yet");
    assert!(lines.iter().any(|it| it.starts_with("Waiting for the first action.")), "{lines:#?}");
    new.trainings.clear();
    view.hear(4711.into(), new);
    let lines = drawn(&view, 80, 24);
    let expected = [
        "digits (process 4711)   profiler: simple",
        "progress    no stage is running: numbers appear when a training, validation or",
        "            test begins (in a loop of your own: Session::begin)",
    ];
    assert_eq!(lines[..3], expected);
}

/// Validations interrupt steps, and the update of the weights calls the forward pass.
#[test]
fn a_step_is_split_into_parts_that_do_not_overlap() {
    let mut busy = state(4711);
    let activity = busy.activity.as_mut().expect("it is followed");
    activity.actions = vec![
        action("[LightningModule]Net.optimizer_step", None, 4, 0.07),
        action("[Strategy]SingleDevice.training_step", Some(0), 4, 0.03),
        action("[module]Linear: head", Some(1), 4, 0.02),
        action("[Strategy]SingleDevice.backward", Some(0), 4, 0.02),
        action("[Strategy]SingleDevice.validation_step", None, 4, 0.09),
    ];
    let mut view = View::default();
    view.hear(4711.into(), busy);
    let split = "step split  waiting for data 25 %   forward 30 %   backward 20 %   optimizer 20 %";
    let lines = drawn(&view, 90, 24);
    assert_eq!(lines[3..5], [split, "            other 5 %"]);
}

/// Actions may have been counted over one more step than the time of the steps.
#[test]
fn parts_that_exceed_the_step_are_reduced_in_proportion() {
    let mut busy = state(4711);
    busy.trainings[0].waiting_for_data = Some(0.0);
    let activity = busy.activity.as_mut().expect("it is followed");
    activity.actions = vec![
        action("[Strategy]SingleDevice.training_step", None, 4, 0.05),
        action("[Strategy]SingleDevice.backward", None, 4, 0.06),
        action("Optimizer.step", None, 4, 0.0275),
    ];
    let mut view = View::default();
    view.hear(4711.into(), busy);
    let split = "step split  waiting for data 0 %   forward 36 %   backward 44 %   optimizer 20 %";
    assert_eq!(drawn(&view, 90, 24)[3], split);
}

/// Twenty hooks without an implementation take one row each, and almost no time.
#[test]
fn small_actions_become_one_row_unless_all_are_asked_for() {
    let mut view = view();
    let mut busy = state(4711);
    let activity = busy.activity.as_mut().expect("it is followed");
    let hook = |number: usize| action(&format!("[Callback]Hook.{number}"), Some(1), 4, 1e-6);
    activity.actions.extend((0..20).map(hook));
    activity.actions.push(action("inside a hook", Some(4), 4, 1e-6));
    activity.actions.push(action("validation_step", None, 4, 0.011));
    view.hear(busy.process.into(), busy);
    let lines = drawn(&view, 80, 24);
    assert!(lines.iter().any(|it| it.starts_with("validation_step")), "{lines:?}");
    assert!(!lines.iter().any(|it| it.contains("Hook")), "{lines:?}");
    let folded = "21 rows below 0.1 %                               84        -         -    0.0 %";
    assert!(lines.iter().any(|it| it == folded), "{lines:#?}");
    view.shows_all = true;
    let lines = drawn(&view, 80, 24);
    assert_eq!(lines[22], "… 13 more lines below (down)", "{lines:#?}");
    let lines = drawn(&view, 80, 40);
    assert_eq!(lines.iter().filter(|it| it.contains("Hook")).count(), 20, "{lines:?}");
    assert!(!lines.iter().any(|it| it.contains("below 0.1 %")), "{lines:?}");
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
    assert!(lines[8].starts_with("epoch") && lines[9].starts_with("  batch"), "{lines:?}");
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
        "  [Strategy]SingleDevice.training_step",
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
        lines[8..8 + expected.len()].iter().map(name).collect()
    };
    assert_eq!(names(&drawn(&view, 80, 24)), expected);
    for order in [Order::Calls, Order::Name] {
        view.order = order;
        assert_eq!(names(&drawn(&view, 80, 24))[4..], expected[4..], "{order:?}");
    }
    (0..9).for_each(|_| view.scroll(true));
    let lines = drawn(&view, 80, 24);
    assert!(lines[8] == expected[4] && lines[9].starts_with("backward "), "{lines:?}");
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
    assert!(lines[5].starts_with("ACTI…ps)") && lines[6].starts_with("run_…tch"), "{lines:?}");
    let nothing = drawn(&View::default(), 80, 24);
    assert!(nothing[0].starts_with("No training of this user can be inspected."), "{nothing:?}");
    assert!(nothing[0..2].join(" ").contains("MLPROF_LIVE=1"), "{nothing:?}");
    let waits = View { unanswered: 2, ..View::default() };
    assert_eq!(drawn(&waits, 80, 24)[0], "Waiting for the first answer of 2 processes.");
}

#[test]
fn actions_can_be_sorted_and_processes_turned_to() {
    let mut view = view();
    view.order = Order::Calls;
    let lines = drawn(&view, 80, 24);
    assert!(lines[9].starts_with("  backward"), "it is called most: {lines:?}");
    view.order = Order::Name;
    view.scrolled = 1;
    let lines = drawn(&view, 80, 24);
    assert!(lines[8].starts_with("  [Strategy]"), "{lines:?}");
    view.hear(4712.into(), state(4712));
    view.turn(true);
    view.has_ended(4712.into());
    let lines = drawn(&view, 80, 24);
    assert_eq!(lines[0], "[4712 digits rank 1] 4711 digits rank 1");
    let title = "digits (process 4712, rank 1 of 2)   ended: last known state   fit";
    assert!(lines[1].starts_with(title), "{lines:?}");
    view.turn(false);
    view.look_at_clock(Duration::ZERO);
    assert!(drawn(&view, 80, 24)[1].contains("not answering: last known state"));
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
    assert!(lines[7].starts_with("THREAD") && lines[8].starts_with("main                 -"));
    assert!(lines[9].starts_with("loader               decode, inside 2 more"), "{lines:?}");
    assert!(lines[9].ends_with("500 ms"), "{lines:?}");

    view.show(Body::Processes);
    let mut first = state(4712);
    first.trainings[0].rank = 0;
    view.hear(4712.into(), first);
    let lines = drawn(&view, 100, 24);
    let expected = [
        "RANK     PID STAGE      EPOCH   STEP STEPS/S  MEDIAN 99% BELOW DATA WAIT  MEMORY  PROGRAM",
        " 0/2    4712 fit         3/10   1203    40.0 20.0 ms   40.0 ms      25 % 300 MiB  digits",
        " 1/2    4711 fit         3/10   1203    40.0 20.0 ms   40.0 ms      25 % 300 MiB  digits",
    ];
    assert_eq!(lines[8..11], expected, "ranks are in order");
    let lines = drawn(&view, 80, 24);
    assert!(lines[8].ends_with("  MEMORY") && lines[9].ends_with(" 300 MiB"), "{lines:#?}");
    view.has_ended(4712.into());
    assert!(drawn(&view, 80, 24)[9].contains("4712 ended"));

    view.show(Body::Findings);
    assert!(drawn(&view, 80, 24)[8].starts_with("Requesting the current report"));
    view.found(4711.into(), Err("no profiler measures".into()));
    assert!(drawn(&view, 80, 24)[8].starts_with("no profiler measures"));
    view.found(4711.into(), Ok(vec!["One thing. Do this.".into(), "another thing ".repeat(9)]));
    let lines = drawn(&view, 80, 24);
    assert_eq!((lines[8].as_str(), lines[9].as_str()), ("One thing. Do this.", ""));
    assert!(lines[10].starts_with("another") && lines[11].contains("thing"), "it is wrapped");
    view.scroll(true);
    assert!(drawn(&view, 80, 24)[8].starts_with("another"), "one finding further");
    view.show(Body::Findings);
    assert_eq!((view.body, view.scrolled), (Body::Actions, 0), "the same key leaves it");
}
