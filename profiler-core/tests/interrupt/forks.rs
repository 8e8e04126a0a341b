//! Tests of forked children that leave the scope of their parent's session.

use super::process::Program;

#[test]
fn a_forked_child_delivers_no_report_whatever_way_it_leaves() {
    for way in ["drops", "panics", "exits", "returns an error"] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = Program::start_in(folder.path(), &format!("forks a child that {way}"));
        let (output, status, errors) = program.end_with_output();
        assert!(status.success(), "{way}: {status}: {output}{errors}");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
        assert_eq!(read("fit-run.txt").matches("FIT Profiler Report").count(), 1, "{way}");
        // The child ends last, so a report of its own would have replaced the parent's.
        let report: mlprof_core::report::SimpleReport =
            serde_json::from_str(&read("fit-run.json")).expect("a report");
        let calls = report.actions.iter().find(|row| row.action == "training_step");
        assert_eq!(calls.map(|row| row.calls), Some(100), "{way}");
    }
}
