//! Tests of `tracing` spans through [`ProfilerLayer`], with real subscribers.

#![cfg(feature = "tracing")]

mod recorder;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};

use mlprof_core::tracing_layer::ProfilerLayer;
use mlprof_core::{ActionKind, Interest, SimpleProfiler, activate, profile};
use recorder::{Event, Recorder, nesting, record, turn};
use tracing::{Instrument, Level, info_span, trace_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, registry};

/// Records `work` on this thread with a registry that has only this layer.
fn record_spans(work: impl FnOnce()) -> Arc<Recorder> {
    record(|| tracing::subscriber::with_default(registry().with(ProfilerLayer::new()), work))
}

#[test]
fn spans_and_guards_nest() {
    let recorder = record_spans(|| {
        let outer = info_span!("outer", size = 3);
        let _enter = outer.enter();
        let _scope = profile!("action");
        for _ in 0..2 {
            info_span!("inner").in_scope(|| ());
        }
    });
    assert_eq!(recorder.nesting(), "outer(action(inner() inner()))");
}

#[test]
fn a_profiler_of_actions_sees_spans_only_as_actions() {
    let calls = |layer: ProfilerLayer| {
        let _turn = turn();
        let profiler = Arc::new(SimpleProfiler::new());
        let active = activate(profiler.clone());
        tracing::subscriber::with_default(registry().with(layer), || {
            for _ in 0..3 {
                info_span!("attention").in_scope(|| ());
            }
        });
        drop(active);
        let rows = profiler.snapshot().actions;
        rows.iter().find(|row| row.action == "attention").map_or(0, |row| row.calls)
    };
    assert_eq!(calls(ProfilerLayer::new()), 0);
    assert_eq!(calls(ProfilerLayer::new().as_actions()), 3);
}

/// A part of a model, with the span that it was built with.
struct Part {
    span: tracing::Span,
    parts: Vec<Part>,
}

impl Part {
    fn forward(&self) {
        let _enter = self.span.enter();
        self.parts.iter().for_each(Part::forward);
        info_span!("softmax").in_scope(|| ()); // made anew for each call
    }
}

#[test]
fn spans_of_a_model_are_modules_each_by_its_own_name() {
    let recorder = record(|| {
        let layer = ProfilerLayer::new().as_modules();
        tracing::subscriber::with_default(registry().with(layer), || {
            let linear = || Part { span: info_span!("linear"), parts: Vec::new() };
            let block = || Part { span: info_span!("block"), parts: vec![linear(), linear()] };
            let model = Part { span: info_span!("model"), parts: vec![block(), block()] };
            model.forward();
            model.forward();
        });
    });
    let softmax = |path: &str| format!("[module]Span: {path}.softmax()");
    let linear = |path: String| format!("[module]Span: {path}({})", softmax(&path));
    let block = |path: String| {
        let [first, second] = [0, 1].map(|number| linear(format!("{path}.linear.{number}")));
        format!("[module]Span: {path}({first} {second} {})", softmax(&path))
    };
    let [first, second] = [0, 1].map(|number| block(format!("model.block.{number}")));
    let forward = format!("[module]Span: model({first} {second} {})", softmax("model"));
    assert_eq!(recorder.nesting(), format!("{forward} {forward}"));
    assert!(recorder.started().iter().all(|action| action.kind() == ActionKind::Module));
}

/// Checks the paths that a model's author would write: parts that occur once in a layer have no
/// number.
#[test]
fn only_what_a_module_has_several_of_is_numbered() {
    let recorder = record(|| {
        let layer = ProfilerLayer::new().as_modules();
        tracing::subscriber::with_default(registry().with(layer), || {
            let names = |name: &str| match name {
                "linear" => info_span!("linear"),
                "attention" => info_span!("attention"),
                "norm" => info_span!("norm"),
                _ => info_span!("layer"),
            };
            let part = |name: &str, parts| Part { span: names(name), parts };
            let attention =
                || part("attention", vec![part("linear", vec![]), part("linear", vec![])]);
            let layers: Vec<_> =
                (0..3).map(|_| part("layer", vec![attention(), part("norm", vec![])])).collect();
            layers.iter().for_each(Part::forward);
            // There are as many inner parts as layers, but both in one layer. It cannot be known
            // that a second one follows.
            drop(layers);
            let twice = part("layer", vec![part("norm", vec![]), part("norm", vec![])]);
            let none = part("layer", vec![]);
            twice.forward();
            none.forward();
        });
    });
    let mut paths: Vec<String> = recorder
        .started()
        .iter()
        .map(|action| action.name().replace("[module]Span: ", ""))
        .collect();
    paths.retain(|path| !path.ends_with("softmax"));
    let of = |number: usize| {
        ["", ".attention", ".attention.linear.0", ".attention.linear.1", ".norm"]
            .map(|rest| format!("layer.{number}{rest}"))
    };
    let expected = [0, 1, 2].map(of).concat();
    assert_eq!(paths[..15], expected);
    assert_eq!(paths[15..], ["layer.0", "layer.0.norm", "layer.0.norm.1", "layer.1"]);
}

#[test]
fn numbers_of_modules_that_are_gone_are_given_again() {
    let recorder = record(|| {
        let layer = ProfilerLayer::new().as_modules();
        tracing::subscriber::with_default(registry().with(layer), || {
            let enter_all = |number: usize| {
                let kept: Vec<_> = (0..number).map(|_| info_span!("kept")).collect();
                kept.iter().for_each(|span| span.in_scope(|| ()));
            };
            enter_all(2);
            enter_all(1);
            enter_all(3);
        });
    });
    let places = ["kept.0()", "kept.1()", "kept()", "kept.0()", "kept.1()", "kept.2()"];
    assert_eq!(recorder.nesting(), places.map(|path| format!("[module]Span: {path}")).join(" "));
}

#[test]
fn a_span_has_its_kind_and_place() {
    let mut line = 0;
    let recorder = record_spans(|| {
        for _ in 0..2 {
            line = line!() + 1;
            info_span!("placed").in_scope(|| ());
        }
        info_span!("placed").in_scope(|| ());
    });
    let [first, again, elsewhere] = recorder.started()[..] else { panic!("three") };
    assert_eq!(first, again);
    assert_eq!(first.kind(), ActionKind::Span);
    let location = first.location().expect("known");
    assert_eq!((location.file, location.line), (file!(), line));
    assert_ne!(first, elsewhere, "one name at two places is two rows");
}

#[test]
fn more_spans_than_the_table_of_known_ones_keep_their_names() {
    macro_rules! spans {
        ($($name:literal)*) => {
            [$({
                let span: fn() -> tracing::Span = || info_span!($name);
                span
            }),*]
        };
    }
    // The metadata are contiguous in memory. 40 times their size wraps around the table.
    let spans = spans!(
        "00" "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17"
        "18" "19" "20" "21" "22" "23" "24" "25" "26" "27" "28" "29" "30" "31" "32" "33" "34" "35"
        "36" "37" "38" "39"
    );
    let recorder = record_spans(|| {
        for _ in 0..3 {
            spans.iter().for_each(|span| span().in_scope(|| ()));
        }
    });
    let names: Vec<_> = recorder.started().iter().map(|action| action.name()).collect();
    let expected: Vec<_> = (0..3).flat_map(|_| (0..40).map(|i| format!("{i:02}"))).collect();
    assert_eq!(names, expected);
}

#[test]
fn one_span_may_be_entered_again_inside_itself_and_after() {
    let recorder = record_spans(|| {
        let span = info_span!("layer");
        span.in_scope(|| span.in_scope(|| drop(profile!("deep"))));
        span.in_scope(|| ());
    });
    assert_eq!(recorder.nesting(), "layer(layer(deep())) layer()");
}

#[test]
fn spans_left_in_another_order_stop_their_own_action() {
    let recorder = record_spans(|| {
        let (first, second) = (info_span!("first").entered(), info_span!("second").entered());
        drop(first);
        drop(second);
        drop(profile!("after"));
    });
    assert_eq!(recorder.nesting(), "first(second(!first) after()");
    let [_, _, left, then, ..] = recorder.events()[..] else { panic!("six events") };
    assert!(matches!((left, then), (Event::Stop(first), Event::Stop(second))
        if first.name() == "first" && second.name() == "second"));
}

#[test]
fn spans_entered_without_or_under_another_profiler_are_not_stopped_in_this_one() {
    let _turn = turn();
    let subscriber = Registry::default().with(ProfilerLayer::new());
    let _subscriber = tracing::subscriber::set_default(subscriber);
    let (first, second) = (Recorder::of_everything(), Recorder::of_everything());

    let early = info_span!("early").entered();
    let activated = activate(first.clone());
    let under_first = info_span!("under first").entered();
    let activated_second = activate(second.clone());
    let under_second = info_span!("under second").entered();
    drop(early);
    drop(under_first);
    drop(activated_second);
    drop(under_second);
    info_span!("back").in_scope(|| ());
    let late = info_span!("late").entered();
    drop(activated);
    drop(late);
    info_span!("nobody").in_scope(|| ());

    let what = "whoever heard of the beginning hears of the end, also when it is active no more";
    assert_eq!(first.nesting(), "under first() back() late()", "{what}");
    assert_eq!(second.nesting(), "under second()", "{what}");
}

#[test]
fn without_interest_in_functions_spans_are_left_alone() {
    let _turn = turn();
    let recorder = Recorder::new(Interest::ACTIONS);
    let _activated = activate(recorder.clone());
    tracing::subscriber::with_default(registry().with(ProfilerLayer::new()), || {
        info_span!("unwanted").in_scope(|| drop(profile!("wanted")));
    });
    assert_eq!(recorder.nesting(), "wanted()");
}

struct PendingOnce(bool);

impl Future for PendingOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn of_asynchronous_spans_only_polls_are_measured() {
    let recorder = record_spans(|| {
        let task = async {
            PendingOnce(false).await;
            PendingOnce(false).instrument(info_span!("inner")).await;
            drop(profile!("end"));
        };
        let mut task = pin!(task.instrument(info_span!("task")));
        let mut context = Context::from_waker(Waker::noop());
        while task.as_mut().poll(&mut context).is_pending() {
            drop(profile!("elsewhere"));
        }
    });
    // An instrumented future also enters its span when it drops its contents.
    assert_eq!(
        recorder.nesting(),
        "task() elsewhere() task(inner()) elsewhere() task(inner() inner() end()) task()"
    );
}

#[test]
fn threads_do_not_disturb_each_other() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 200;
    let _turn = turn();
    let recorder = Recorder::of_everything();
    let _activated = activate(recorder.clone());
    let dispatch = tracing::Dispatch::new(registry().with(ProfilerLayer::new()));
    let (shared, barrier) = (
        tracing::dispatcher::with_default(&dispatch, || info_span!("shared")),
        Barrier::new(THREADS),
    );
    let threads: Vec<_> = std::thread::scope(|scope| {
        let work = || {
            tracing::dispatcher::with_default(&dispatch, || {
                barrier.wait();
                for _ in 0..ROUNDS {
                    // All threads are in one shared span at once, and each thread also has its own
                    // span.
                    shared.in_scope(|| info_span!("own").in_scope(|| ()));
                }
            });
            std::thread::current().id()
        };
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let expected = vec!["shared(own())"; ROUNDS].join(" ");
    for thread in threads {
        assert_eq!(nesting(&recorder.events_of(thread)), expected);
    }
}

#[test]
fn subscribers_that_number_their_spans_alike_are_told_apart() {
    let recorder = record(|| {
        let subscribers =
            [(); 2].map(|()| tracing::Dispatch::new(registry().with(ProfilerLayer::new())));
        let [outer, inner] = &subscribers;
        let (first, second) = (
            tracing::dispatcher::with_default(outer, || info_span!("first")),
            tracing::dispatcher::with_default(inner, || info_span!("second")),
        );
        assert_eq!(first.id(), second.id(), "else this tests nothing");
        let first = first.entered();
        let second = second.entered();
        drop(first);
        drop(second);
    });
    let stops: Vec<_> = recorder.events().split_off(2);
    let names = stops.iter().map(|event| match event {
        Event::Stop(action) | Event::Start(action) => action.name(),
    });
    assert_eq!(names.collect::<Vec<_>>(), ["first", "second"]);
}

/// Layer that counts the spans that it receives.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> Layer<S> for Counter {
    fn on_new_span(
        &self,
        _attributes: &tracing::span::Attributes<'_>,
        _id: &tracing::span::Id,
        _context: tracing_subscriber::layer::Context<'_, S>,
    ) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn an_info_and_a_trace_span() {
    info_span!("coarse").in_scope(|| trace_span!("fine").in_scope(|| ()));
}

#[test]
fn filters_of_one_layer_are_its_own() {
    let counter = Counter::default();
    let own = ProfilerLayer::new().with_filter(LevelFilter::INFO);
    let recorder = record(|| {
        let subscriber = registry().with(own).with(counter.clone());
        tracing::subscriber::with_default(subscriber, an_info_and_a_trace_span);
    });
    assert_eq!(recorder.nesting(), "coarse()", "the filter in front of us");
    assert_eq!(counter.0.load(Ordering::Relaxed), 2, "the other layer sees all");

    let counter = Counter::default();
    let recorder = record(|| {
        let others = counter.clone().with_filter(LevelFilter::INFO);
        let subscriber = registry().with(others).with(ProfilerLayer::new());
        tracing::subscriber::with_default(subscriber, an_info_and_a_trace_span);
    });
    assert_eq!(recorder.nesting(), "coarse(fine())");
    assert_eq!(counter.0.load(Ordering::Relaxed), 1, "and we enable nothing for it");
}

#[test]
fn spans_work_for_other_layers_while_no_profiler_is_active() {
    let _turn = turn();
    let counter = Counter::default();
    let subscriber = registry().with(ProfilerLayer::new()).with(counter.clone());
    tracing::subscriber::with_default(subscriber, || {
        an_info_and_a_trace_span();
        assert!(tracing::enabled!(Level::TRACE));
    });
    assert_eq!(counter.0.load(Ordering::Relaxed), 2);
}

#[test]
fn a_span_that_is_never_left_is_let_go_with_its_thread() {
    let _turn = turn();
    let recorder = Recorder::of_everything();
    let _activated = activate(recorder.clone());
    let thread = std::thread::spawn(|| {
        let subscriber = registry().with(ProfilerLayer::new());
        tracing::subscriber::with_default(subscriber, || {
            std::mem::forget(info_span!("forgotten").entered());
        });
        std::thread::current().id()
    });
    let events = recorder.events_of(thread.join().expect("no panic"));
    assert!(matches!(events[0], Event::Start(action) if action.name() == "forgotten"));
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Start(_))).count(), 1);
}
