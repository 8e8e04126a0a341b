//! Tests of a run that measures processes with equal ids, as in two containers.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::own_numbers::{self, wrapped};
use mlprof_core::Report;
use mlprof_core::spliced::{AdvancedSettings, ProcessRecord, RUN_VARIABLE, RunSettings};

fn start(around: &[&str], run: &Path, who: &str) -> Child {
    let own = std::env::current_exe().expect("its own path");
    let mut command = wrapped(around, &own);
    command.env("MLPROF_TEST_SCENE", "of a run").env("MLPROF_TEST_WHO", who);
    command.env(RUN_VARIABLE, run).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("started")
}

/// Returns the process id that the process itself has.
fn number(child: Child) -> u32 {
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect()
}

/// Checks that each process keeps its results and its record, both concurrently and one after the
/// other.
pub fn check() {
    let folder = tempfile::tempdir().expect("a folder");
    let (results, records) = (folder.path().join("results"), folder.path().join("records"));
    std::fs::create_dir(&records).expect("made");
    let run = folder.path().join("run.json");
    let settings = RunSettings {
        directory: results.clone(),
        processes: Some(records.clone()),
        advanced: Some(AdvancedSettings::default()),
        ..RunSettings::default()
    };
    settings.write(&run).expect("written");
    let own = std::env::current_exe().expect("its own path");
    let program = own.file_stem().expect("a name").to_string_lossy().into_owned();

    // The name has no suffix if no other process has the same id.
    let alone = number(start(&[], &run, "alone"));
    let both = |what: &str| ["json", "txt"].map(|ending| format!("{program}-{what}.{ending}"));
    assert_eq!(names(&results), BTreeSet::from(both(&format!("{alone}-functions"))));

    let Some(around) = own_numbers::way() else { return };
    let at_once = ["one", "other"].map(|who| start(around, &run, who)).map(number);
    assert_eq!(at_once, [1, 1]);
    assert_eq!(number(start(around, &run, "later")), 1);
    let expected = [format!("{alone}-functions"), "1-functions".into(), "1-2-functions".into()];
    let expected = expected.into_iter().chain(["1-3-functions".to_owned()]);
    let expected: BTreeSet<String> = expected.flat_map(|what| both(&what)).collect();
    assert_eq!(names(&results), expected, "nothing is left of what was claimed");

    let mut actions = BTreeSet::new();
    for name in names(&results).iter().filter(|name| name.ends_with(".json")) {
        let text = std::fs::read_to_string(results.join(name)).expect("text");
        let Ok(Report::Advanced(report)) = Report::from_json(&text) else { panic!("{text}") };
        let own = report.actions.into_iter().map(|action| action.action);
        actions.extend(own.filter(|action| action.starts_with("of ")));
    }
    assert_eq!(
        actions.into_iter().collect::<Vec<_>>(),
        ["of alone", "of later", "of one", "of other"]
    );

    let records = ProcessRecord::read_all(&records).expect("records");
    assert_eq!(records.len(), 4, "{records:#?}");
    for record in &records {
        let [program] = &record.programs[..] else { panic!("{record:#?}") };
        assert!(program.has_reported && program.results.is_some(), "{record:#?}");
        assert_eq!(record.is_of_this_container(), record.process == alone, "{record:#?}");
    }
}
