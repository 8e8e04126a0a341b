//! Builders of traces from events. Times are in microseconds.

use mlprof_analysis::{Analysis, Trace, kineto};

/// Process and thread of the training loop.
pub const MAIN: (u32, u32) = (100, 100);
/// Another thread of the process.
pub const OTHER: (u32, u32) = (100, 101);
/// Device and stream.
pub const STREAM: (u32, u32) = (0, 7);

pub fn slice(place: (u32, u32), category: &str, name: &str, ts: f64, dur: f64) -> String {
    with(place, category, name, (ts, dur), "{}")
}

pub fn with(
    (pid, tid): (u32, u32),
    category: &str,
    name: &str,
    (ts, dur): (f64, f64),
    args: &str,
) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts:.3},"dur":{dur:.3},"args":{args}}}"#
    )
}

/// Returns an action, module or step of the main thread.
pub fn action(name: &str, ts: f64, dur: f64) -> String {
    slice(MAIN, "user_annotation", name, ts, dur)
}

pub fn op(name: &str, ts: f64, dur: f64) -> String {
    slice(MAIN, "cpu_op", name, ts, dur)
}

/// Returns a runtime library call of the main thread.
pub fn call(name: &str, ts: f64, dur: f64, correlation: u32) -> String {
    let args = format!(r#"{{"correlation":{correlation}}}"#);
    with(MAIN, "cuda_runtime", name, (ts, dur), &args)
}

pub fn work(category: &str, name: &str, ts: f64, dur: f64, correlation: u32) -> String {
    let args = format!(r#"{{"correlation":{correlation},"bytes":10000}}"#);
    with(STREAM, category, name, (ts, dur), &args)
}

/// Returns an arrow from a forward op to a backward op.
pub fn arrow(id: u32, from: ((u32, u32), f64), to: ((u32, u32), f64)) -> String {
    let end = |ph: &str, ((pid, tid), ts): ((u32, u32), f64)| {
        format!(
            r#"{{"ph":"{ph}","cat":"fwdbwd","name":"fwdbwd","id":{id},"pid":{pid},"tid":{tid},"ts":{ts:.3}}}"#
        )
    };
    format!("{},{}", end("s", from), end("f", to))
}

pub fn json(events: &[String]) -> String {
    format!(
        r#"{{"schemaVersion":1,"distributedInfo":{{"rank": 1, "world_size": 2}},"traceEvents":[{}],"traceName":"x"}}"#,
        events.join(",\n")
    )
}

pub fn trace(events: &[String]) -> Trace {
    kineto::read(json(events).as_bytes()).expect("a trace")
}

pub fn analysis(events: &[String]) -> Analysis {
    Analysis::of(&trace(events))
}
