//! A program with a plugin as its only mlprof dependency. The plugins' tests insert their names and
//! compile it.

use PLUGIN::prelude::*;
use PLUGIN::profile as measure;
use PLUGIN::mlprof_core::{RunContext, Session, Stage};

struct Net;

#[profiled]
impl Net {
    fn forward(&self, input: &[f32]) -> f32 {
        let _scope = profile!("sum");
        input.iter().sum()
    }

    async fn predict(&self) -> f32 {
        self.forward(&[2.0])
    }
}

#[profiled]
fn train() -> f32 {
    let _step = profile!("train_step");
    let _met = PLUGIN::profile_collective!("all_reduce", 0);
    let _named = PLUGIN::profile_dynamic!(format!("batch_{}", 0));
    let _by_path = PLUGIN::profile!("by_path");
    Net.forward(&[1.0])
}

#[profiled(crate = PLUGIN::mlprof_core)]
fn by_path() {
    let _scope = measure!("renamed");
}

fn main() {
    let profiler = std::sync::Arc::new(AdvancedProfiler::new());
    let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    assert_eq!(train(), 1.0);
    by_path();
    drop(Net.predict());
    let report = profiler.summary();
    drop(session);
    let functions = ["(train)", "(Net::forward)", "(by_path)"];
    let actions = ["sum", "train_step", "batch_0", "renamed", "by_path"];
    let actions = actions.map(|name| format!("Profile stats for: {name}"));
    for row in functions.into_iter().chain(actions.iter().map(String::as_str)) {
        assert!(report.contains(row), "{row}: {report}");
    }
    println!("all of it was measured");
}
