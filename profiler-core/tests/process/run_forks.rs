//! Tests of forked children of a process that `mlprof run` measures.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::AtomicU32;

use mlprof_core::spliced::{AdvancedSettings, ProcessRecord, RUN_VARIABLE, RunSettings, sink};
use mlprof_core::{Report, profile, profile_dynamic};

/// Ways in which a child ends.
const WAYS: [&str; 4] = ["exits", "returns", "leaves", "measures nothing"];

/// Acts like a program that `mlprof run` has built. Each child makes one call of its own and one
/// that its parent also makes.
pub fn play() {
    static WANTED: AtomicU32 = AtomicU32::new(0);
    (sink().begin)(&WANTED);
    let shared = || drop(profile!("of both"));
    (0..10).for_each(|_| shared());
    let _open = profile!("open at the fork");
    for way in WAYS {
        // SAFETY: the child continues with a copy of this thread only and uses no state of other
        // threads.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            if way != "measures nothing" {
                shared();
                drop(profile_dynamic!(format!("of the child that {way}")));
            }
            match way {
                "returns" => return,
                // SAFETY: `_exit` ends the process without exit handlers.
                "leaves" => unsafe { libc::_exit(0) },
                _ => std::process::exit(0),
            }
        }
        println!("{child} {way}");
        let mut status = 1;
        // SAFETY: `status` is a local variable, and `child` is a child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "{way}");
    }
    (0..10).for_each(|_| shared());
}

/// Returns the calls of each report, by process id.
fn calls(results: &Path) -> BTreeMap<u32, BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(results).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let process = name.split('-').rev().nth(1).and_then(|number| number.parse().ok());
        let text = std::fs::read_to_string(&path).expect("text");
        let Ok(Report::Advanced(report)) = Report::from_json(&text) else { panic!("{text}") };
        let rows = report.actions.into_iter().map(|action| (action.action, action.calls));
        let before = all.insert(process.expect("its number"), rows.collect());
        assert!(before.is_none(), "one report each: {name}");
    }
    all
}

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
    let mut command = super::checks::command("forks of a run");
    command.env(RUN_VARIABLE, &run).stdout(Stdio::piped()).stderr(Stdio::piped());
    let parent = command.spawn().expect("started");
    let number = parent.id();
    let output = parent.wait_with_output().expect("ended");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let children: BTreeMap<&str, u32> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(child, way)| Some((way, child.parse().ok()?)))
        .collect();
    assert_eq!(children.len(), WAYS.len(), "{text}");

    let calls = calls(&results);
    let of =
        |process: u32, action: &str| calls.get(&process).and_then(|of| of.get(action)).copied();
    assert_eq!(of(number, "of both"), Some(20), "what its children did is not its own: {calls:?}");
    for way in ["exits", "returns"] {
        let child = children[way];
        assert_eq!(of(child, "of both"), Some(1), "nothing of its parent's: {way}: {calls:?}");
        assert_eq!(of(child, &format!("of the child that {way}")), Some(1), "{calls:?}");
        assert_eq!(of(child, "open at the fork"), None, "its parent's: {calls:?}");
    }
    assert_eq!(of(children["measures nothing"], "of both"), None, "{calls:?}");

    // A process that ends without time for a report has a record that shows this.
    let records = ProcessRecord::read_all(&records).expect("records");
    let reported = |process: u32| {
        let record = records.iter().find(|record| record.process == process)?;
        let [program] = &record.programs[..] else { panic!("{record:#?}") };
        Some(program.has_reported)
    };
    assert_eq!(reported(number), Some(true), "{records:#?}");
    for (way, expected) in [
        ("exits", Some(true)),
        ("returns", Some(true)),
        ("leaves", Some(false)),
        ("measures nothing", None),
    ] {
        assert_eq!(reported(children[way]), expected, "{way}: {records:#?}");
    }
}
