use mlprof_core::report::StartupDurationsParts;
use mlprof_core::report::advanced::{CallTreeNodeParts, ThreadCallTree};
use mlprof_core::report::simple::{
    CpuStatisticsParts, DataWaitingParts, IoStatistics, IoStatisticsParts,
};
use mlprof_core::{ActionKind, Report, Stage};

use crate::samples::{advanced, calls, key, open, profile, row, simple, training_run};

#[test]
fn written_reports_can_be_read() {
    let node = CallTreeNodeParts {
        function: key("src/a.rs", 1, "größe\n"),
        kind: ActionKind::Function,
        calls: calls(u64::MAX, 1, 1e-9, 0.1 + 0.2),
        children: vec![],
    }
    .build();
    let root = CallTreeNodeParts { children: vec![node.clone()], ..node.into() }.build();
    let mut tree = advanced(vec![profile()]);
    tree.threads = vec![ThreadCallTree::new("main".into(), 1, vec![root])];
    let mut running = training_run();
    running.open = vec![open("", "main", 1.5)];
    running.header.notes = vec!["x".into()];
    running.header.startup =
        Some(StartupDurationsParts { total_seconds: 1.5, before_main_seconds: None }.build());
    running.data_waiting = Some(
        DataWaitingParts { waiting_seconds: 1.0, epoch_seconds: Some(3.0), share: 1.0 / 3.0 }
            .build(),
    );
    running.actions[0].io =
        Some(IoStatisticsParts { read_bytes: u64::MAX, ..IoStatistics::default().into() }.build());
    running.actions[0].cpu = Some(
        CpuStatisticsParts {
            thread_seconds: 0.1 + 0.2,
            process_seconds: 1e-9,
            voluntary_switches: u64::MAX,
            involuntary_switches: 1,
        }
        .build(),
    );
    for report in [Report::Simple(running), Report::Advanced(tree)] {
        let json = report.to_json().expect("a report is JSON");
        assert_eq!(Report::from_json(&json).expect("it was just written"), report);
    }
}

#[test]
fn the_layout_is_as_documented() {
    let mut report = simple(Some(Stage::Fit), 12.5, vec![row("optimizer_step", &[0.5, 0.25])]);
    report.open = vec![open("run_training_epoch", "main", 1.5)];
    let json = Report::Simple(report).to_json().expect("a report is JSON");
    let expected = r#"{
  "profiler": "simple",
  "header": {
    "schema_version": 1,
    "units": {
      "time": "seconds",
      "started_at": "UTC, RFC 3339"
    },
    "stage": "fit",
    "rank": 0,
    "world_size": 1,
    "started_at": "2026-01-02T03:04:05Z",
    "wall_seconds": 12.5,
    "build": null,
    "program": null,
    "machine": null,
    "startup": null,
    "overhead": {
      "scopes": 123456,
      "seconds_per_scope": 4.5e-8
    },
    "notes": []
  },
  "actions": [
    {
      "action": "optimizer_step",
      "sub_stage": null,
      "calls": 2,
      "total_seconds": 0.75,
      "self_seconds": 0.75,
      "first_seconds": 0.5,
      "rest": {
        "min_seconds": 0.25,
        "mean_seconds": 0.25,
        "p50_seconds": 0.25,
        "p95_seconds": 0.25,
        "max_seconds": 0.25
      },
      "io": null,
      "cpu": null
    }
  ],
  "threads": [],
  "open": [
    {
      "action": "run_training_epoch",
      "thread": "main",
      "elapsed_seconds": 1.5
    }
  ],
  "data_waiting": null,
  "device_regions": []
}"#;
    assert_eq!(json, expected);
}

/// Checks that fields added after the first reports may be missing.
#[test]
fn reports_of_earlier_versions_can_be_read() {
    let report = Report::Simple(simple(None, 1.0, vec![row("step", &[0.5])]));
    let json = report.to_json().expect("a report is JSON");
    let mut value: serde_json::Value = serde_json::from_str(&json).expect("it was just written");
    let remove = |object: &mut serde_json::Value, field| {
        assert!(object.as_object_mut().expect("an object").remove(field).is_some(), "{field}");
    };
    remove(&mut value, "data_waiting");
    remove(&mut value["header"], "startup");
    remove(&mut value["actions"][0], "io");
    remove(&mut value["actions"][0], "cpu");
    assert_eq!(Report::from_json(&value.to_string()).expect("still a report"), report);
}

#[test]
fn other_files_are_errors_with_a_reason() {
    let error = Report::from_json(r#"{"profiler": "simple"}"#).expect_err("fields are missing");
    assert!(error.to_string().contains("header"), "{error}");
    assert!(Report::from_json("").is_err());
}
