//! The guide's page on the JSON of reports lists every field that profilers write.

use std::collections::BTreeSet;
use std::path::Path;

use mlprof_core::prelude::*;
use mlprof_core::{NumericsProfiler, TensorProfiler};
use serde_json::Value;

/// Names in backticks of the page.
fn listed() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference/json.md");
    let text = std::fs::read_to_string(page).expect("the page");
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Fields of a report, of its header, and of its actions.
fn fields(profiler: &dyn Profiler) -> BTreeSet<String> {
    drop(profiler.profile("load_data"));
    drop(profiler.profile("load_data"));
    let json = profiler.report().expect("a report").to_json().expect("JSON");
    let report: Value = serde_json::from_str(&json).expect("JSON");
    let mut found = BTreeSet::new();
    let parts = [Some(&report), report.get("header"), report.pointer("/actions/0")];
    let rest = [report.pointer("/actions/0/rest"), report.pointer("/actions/0/functions/0")];
    for part in parts.into_iter().chain(rest).flatten().filter_map(Value::as_object) {
        found.extend(part.keys().cloned());
    }
    found
}

#[test]
fn the_guide_lists_every_field() {
    let listed = listed();
    let profilers: [Box<dyn Profiler>; 4] = [
        Box::new(SimpleProfiler::new()),
        Box::new(AdvancedProfiler::new()),
        Box::new(TensorProfiler::new()),
        Box::new(NumericsProfiler::new()),
    ];
    for profiler in profilers {
        let fields = fields(&*profiler);
        assert!(fields.len() > 20, "{fields:?}");
        let missing: Vec<_> = fields.difference(&listed).collect();
        assert!(missing.is_empty(), "the page lacks {missing:?}");
    }
}
