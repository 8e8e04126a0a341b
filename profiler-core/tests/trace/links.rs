//! Tests of links between forward and backward ops, of steps, and of calls on other threads.

use mlprof_core::hook::{Direction, OpStart};
use mlprof_core::tensor::Schedule;
use mlprof_core::{Action, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler};

use crate::parsed::Trace;
use crate::recorded::{action, op, read_run, run, text, trace};

fn numbered(name: &str, sequence: u32, direction: Direction) -> OpStart<'static> {
    let mut op = OpStart::new(Action::op(name));
    (op.sequence, op.direction, op.forward_thread) = (sequence, direction, 1);
    op
}

#[test]
fn one_arrow_leads_from_each_forward_op_to_its_backward_op() {
    let text = trace(|profiler| {
        // The framework counted the inner op, and the outer one has the same number.
        run(profiler, &numbered("linear", 5, Direction::Forward), || {
            run(profiler, &numbered("addmm", 5, Direction::Forward), || {});
        });
        run(profiler, &numbered("relu", 6, Direction::Forward), || {});
        run(profiler, &numbered("never differentiated", 7, Direction::Forward), || {});
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (name, inner, sequence) in
                    [("evaluate relu", "ReluBackward0", 6), ("evaluate addmm", "AddmmBackward0", 5)]
                {
                    run(profiler, &numbered(name, sequence, Direction::Backward), || {
                        run(profiler, &numbered(inner, sequence, Direction::Backward), || {});
                    });
                }
                run(profiler, &numbered("from nowhere", 99, Direction::Backward), || {});
            });
        });
    });
    let trace = Trace::of(&text);
    let at = |phase: &'static str| {
        let slices = trace.slices();
        let mut ends: Vec<(i64, String)> = trace
            .of_phase(phase)
            .map(|event| {
                let start = (event["ts"].as_f64().expect("a number") * 1000.0).round() as i64;
                let is_there = |slice: &&crate::parsed::Slice| {
                    slice.start == start && event["tid"] == slice.track.1
                };
                let slice = slices.iter().find(is_there).expect("a slice");
                (event["id"].as_i64().expect("a number"), slice.name.clone())
            })
            .collect();
        ends.sort();
        ends.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(
        (at("s"), at("f")),
        (
            vec!["relu".to_owned(), "addmm".to_owned()],
            vec!["evaluate relu".to_owned(), "evaluate addmm".to_owned()],
        )
    );
    let args = trace.slice("AddmmBackward0").args;
    assert_eq!((&args["Sequence number"], &args["Fwd thread id"]), (&5.into(), &1.into()));
    assert_eq!(trace.slice("addmm").args["Fwd thread id"], 0);
}

#[test]
fn the_engines_scopes_have_the_numbers_of_their_nodes() {
    const SCOPE: &str = "autograd::engine::evaluate_function: ";
    let text = trace(|profiler| {
        run(profiler, &numbered("relu", OpStart::FIRST_SEQUENCE, Direction::Forward), || {});
        for (node, sequence) in [("Relu", OpStart::FIRST_SEQUENCE), ("Mm", 7), ("Accumulate", 0)] {
            op(profiler, &format!("{SCOPE}{node}"), || {
                action(profiler, "a module's hook", || {});
                run(profiler, &numbered(node, sequence, Direction::Backward), || {
                    run(profiler, &numbered("inside", 9, Direction::Backward), || {});
                });
                run(profiler, &numbered("after", 8, Direction::Backward), || {});
            });
        }
        // A scope of other code does not belong to the autograd engine.
        op(profiler, "around", || run(profiler, &numbered("in", 3, Direction::Backward), || {}));
    });
    let trace = Trace::of(&text);
    let tie = |name: &str| {
        let args = trace.slice(name).args;
        (args["Sequence number"].as_i64(), args["Fwd thread id"].as_i64())
    };
    assert_eq!(tie("relu"), (Some(0), Some(0)));
    assert_eq!(tie(&format!("{SCOPE}Relu")), (Some(0), Some(1)));
    assert_eq!(tie(&format!("{SCOPE}Mm")), (Some(7), Some(1)));
    assert_eq!(tie(&format!("{SCOPE}Accumulate")), (None, None));
    assert_eq!(tie("around"), (None, None));
}

#[test]
fn an_arrow_never_leads_back_even_if_numbers_come_again() {
    let text = trace(|profiler| {
        for _ in 0..3 {
            run(profiler, &numbered("forward", 1, Direction::Forward), || {});
            run(profiler, &numbered("backward", 1, Direction::Backward), || {});
        }
        run(profiler, &numbered("only backward", 2, Direction::Backward), || {});
        run(profiler, &numbered("too late", 2, Direction::Forward), || {});
    });
    // The rules that are checked for every trace cover the rest.
    assert_eq!(Trace::of(&text).of_phase("f").count(), 1);
}

#[test]
fn every_event_has_a_number_of_its_own() {
    let text = trace(|profiler| {
        op(profiler, "first", || op(profiler, "inner", || {}));
        std::thread::scope(|scope| {
            scope.spawn(|| op(profiler, "other thread", || {}));
        });
    });
    let trace = Trace::of(&text);
    let number = |name: &str| trace.slice(name).args["External id"].as_i64().expect("a number");
    assert_eq!([number("inner"), number("first"), number("other thread")], [1, 2, 3]);
    assert_eq!(trace.slice("inner").args["Ev Idx"], 0);
}

#[test]
fn steps_are_numbered_as_the_schedule_counts() {
    let traces = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let place = traces.clone();
    let profiler = TensorProfiler::new()
        .schedule(Schedule::new().wait(1).warmup(1).active(2).repeat(2))
        .on_trace_ready(move |cycle| place.lock().expect("no panic").push(text(cycle)));
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..10 {
        action(&profiler, "training_step", || {});
        profiler.step();
    }
    profiler.teardown(None);
    let traces = traces.lock().expect("no panic");
    assert_eq!(traces.len(), 2);
    for (cycle, (text, steps)) in traces.iter().zip([[2, 3], [6, 7]]).enumerate() {
        let trace = Trace::of(text);
        for step in steps {
            trace.slice(&format!("ProfilerStep#{step}"));
        }
        assert_eq!(trace.slices().len(), 4);
        let data = &trace.all["mlprof"];
        assert_eq!((&data["cycle"], &data["first_step"]), (&cycle.into(), &steps[0].into()));
        assert_eq!((&data["steps"], &data["is_complete"]), (&2.into(), &true.into()));
    }
}

#[test]
fn the_process_is_described() {
    let run = RunContext::default().with_rank(3, 8).with_local_rank(1);
    let text = read_run(&run, |profiler| op(profiler, "one", || {}), text);
    assert!(text.contains("\"rank\": 3"), "as HolisticTraceAnalysis looks for it");
    let trace = Trace::of(&text);
    let info = &trace.all["distributedInfo"];
    assert_eq!((&info["rank"], &info["world_size"]), (&3.into(), &8.into()));
    assert_eq!(trace.all["schemaVersion"], 1);
    assert_eq!(trace.all["displayTimeUnit"], "ms");
    assert_eq!(trace.all["traceName"], "trace");
    assert_eq!(trace.all["trace_id"].as_str().map(str::len), Some(32));
    assert!(trace.all["hostname"].is_string());
    assert_eq!(trace.slice("one").track.0, i64::from(std::process::id()));
    // The sum of base time and time stamp is the current time.
    let base = trace.all["baseTimeNanoseconds"].as_i64().expect("a number");
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let apart = now.as_nanos() as i64 - (base + trace.slice("one").start);
    assert!((0..60_000_000_000).contains(&apart), "{apart} ns ago");
}

#[test]
fn work_for_another_thread_names_its_caller() {
    use std::sync::Arc;
    struct Wants(std::sync::Mutex<Option<mlprof_core::hook::Context>>);
    impl mlprof_core::hook::Instrumentation for Wants {
        fn interest_changed(&self, _: mlprof_core::Interest) {}
        fn wants_context(&self) -> bool {
            true
        }
        fn context_changed(&self, context: mlprof_core::hook::Context) {
            *self.0.lock().expect("no panic") = Some(context);
        }
    }
    let source = Arc::new(Wants(Default::default()));
    let _handle = mlprof_core::hook::register(source.clone());
    let text = trace(|profiler| {
        action(profiler, "outer \"one\"", || {
            action(profiler, "inner", || {
                let context = *source.0.lock().expect("no panic");
                let mut start = OpStart::new(Action::op("executed elsewhere"));
                start.context = context;
                std::thread::scope(|scope| {
                    scope.spawn(|| run(profiler, &start, || {}));
                });
            });
        });
    });
    let trace = Trace::of(&text);
    let elsewhere = trace.slice("executed elsewhere");
    assert_eq!(elsewhere.args["Called from"], "outer \"one\";inner");
    assert_eq!(elsewhere.args["Called on thread"], trace.slice("inner").track.1);
}
