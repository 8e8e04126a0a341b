use mlprof_core::Stage;
use mlprof_core::report::LineCountRestriction::{self, Lines, Share};
use mlprof_core::report::advanced::prof;
use mlprof_core::report::advanced::pstats;
use mlprof_core::report::advanced::pstats::{PstatsOptions, Restriction, SortKey};
use mlprof_core::report::advanced::{ActionProfile, AdvancedReport};

use crate::python;
use crate::samples::{advanced, calls, function, key, open, profile};

/// Returns Python's output for the same profile, called like in Lightning.
fn by_python(profile: &ActionProfile, restriction: &str) -> String {
    sorted_by_python(profile, "'cumulative'", restriction)
}

fn sorted_by_python(profile: &ActionProfile, sort_by: &str, restrictions: &str) -> String {
    let script = "import pstats, sys\n\
                  stats = pstats.Stats(sys.argv[1], stream=sys.stdout)\n\
                  stats.files = []\n\
                  stats.strip_dirs()\n\
                  if sys.argv[2]: stats.sort_stats(*eval('[' + sys.argv[2] + ']'))\n\
                  stats.print_stats(*eval('[' + sys.argv[3] + ']'))";
    let file = python::file(&prof::encode(profile));
    python::run(script, &[python::path(&file), sort_by, restrictions])
}

fn with_functions(count: usize) -> ActionProfile {
    let mut profile = profile();
    profile.functions.truncate(count);
    profile
}

#[test]
fn tables_are_pstats_own_byte_for_byte() {
    let cases: [(usize, LineCountRestriction, &str); 15] = [
        (75, Lines(10), "10"),
        (75, Lines(0), "0"),
        (75, Lines(74), "74"),
        (75, Lines(75), "75"),
        (75, Lines(1_000), "1000"),
        (75, Share(0.5), "0.5"),
        (75, Share(0.1), "0.1"),
        (75, Share(1.0 / 3.0), "1/3"),
        (75, Share(0.0), "0.0"),
        (75, Share(1e-5), "1e-5"),
        (75, Share(1.0), "1.0"),
        (75, Share(7.5), "7.5"),
        (75, Share(-1.0), "-1.0"),
        (75, Share(f64::NAN), "float('nan')"),
        (1, Share(1.0), "1.0"), // without recursion, primitive calls are not printed
    ];
    for (functions, restriction, in_python) in cases {
        let profile = with_functions(functions);
        let text = pstats::paint(&advanced(vec![profile.clone()]), restriction);
        let expected = by_python(&profile, in_python);
        let head = "FIT Profiler Report\nProfile stats for: run_training_batch rank: 0\n";
        assert_eq!(text, format!("{head}{expected}"), "{functions} functions, {in_python}");
    }
}

#[test]
fn every_order_is_pythons_own() {
    let mut profile = profile();
    // Ties in the first sort key make the second key matter.
    for (position, function) in profile.functions.iter_mut().enumerate() {
        function.function.line %= 7;
        function.function.name += ["", "_x"][position % 2];
    }
    let report = advanced(vec![profile.clone()]);
    for sort_by in [
        "cumulative",
        "cumtime",
        "tottime",
        "time",
        "ncalls",
        "calls",
        "pcalls",
        "filename",
        "module",
        "line",
        "name",
        "nfl",
        "stdname",
        "line,ncalls",
        "time,name",
        "",
    ] {
        let keys: Vec<SortKey> = sort_by
            .split(',')
            .filter(|key| !key.is_empty())
            .map(|key| key.parse().expect("a key of Python's"))
            .collect();
        let quoted: Vec<_> = keys.iter().zip(sort_by.split(',')).map(|(_, key)| key).collect();
        let quoted: Vec<_> = quoted.into_iter().map(|key| format!("{key:?}")).collect();
        let options = PstatsOptions { sort_by: &keys, restrictions: &[] };
        let text = pstats::paint_with(&report, &options);
        let expected = sorted_by_python(&profile, &quoted.join(","), "");
        let head = "FIT Profiler Report\nProfile stats for: run_training_batch rank: 0\n";
        assert_eq!(text, format!("{head}{expected}"), "sorted by {sort_by:?}");
    }
    let error = "cumulativ".parse::<SortKey>().expect_err("no key").to_string();
    assert!(error.contains("\"cumulativ\"") && error.contains("\"tottime\""), "{error}");
}

#[test]
fn restrictions_follow_one_another_as_in_python() {
    let profile = profile();
    let report = advanced(vec![profile.clone()]);
    // These regular expressions contain no special characters, so they match like plain text.
    let matching = |pattern: &'static str| move |label: &str| label.contains(pattern);
    let (op_2, ops, none) = (matching("op_2"), matching("op_"), matching("nothing like it"));
    let names = |pattern, is_match| Restriction::Matching { pattern, is_match };
    let cases: [(&[Restriction<'_>], &str); 4] = [
        (&[names("op_2", &op_2), Restriction::Count(Lines(3))], "'op_2', 3"),
        (&[Restriction::Count(Share(0.5)), names("op_", &ops)], "0.5, 'op_'"),
        (
            &[names("op_", &ops), names("op_2", &op_2), Restriction::Count(Lines(99))],
            "'op_','op_2',99",
        ),
        (&[names("nothing like it", &none)], "'nothing like it'"),
    ];
    for (restrictions, in_python) in cases {
        let options = PstatsOptions { sort_by: &[SortKey::SelfTime], restrictions };
        let text = pstats::paint_with(&report, &options);
        let expected = sorted_by_python(&profile, "'tottime'", in_python);
        assert!(text.ends_with(&expected), "{in_python}: {text}\n{expected}");
    }
}

#[test]
fn python_says_what_the_documents_say() {
    let text = pstats::paint(&advanced(vec![profile()]), Lines(10));
    assert!(text.contains("   List reduced from 75 to 10 due to restriction <10>\n"), "{text}");
    assert!(
        text.contains("\n3752/1876    0.011    0.000   18.250    0.010 tree.rs:42(fetch)\n"),
        "{text}"
    );
    assert!(text.contains(" primitive calls) in "), "{text}");
    let text = pstats::paint(&advanced(vec![profile()]), Share(1.0));
    assert!(text.contains(" {burn::fusion}\n"), "a span in angle brackets: {text}");
    assert!(text.contains(" run_training_batch\n"), "an action without a file: {text}");
}

/// Compares a report of several actions and ranks, joined like in Lightning's `_stats_to_str`:
/// lines of header and table, with a line break between each.
#[test]
fn a_report_is_every_action_in_turn() {
    let mut validation = with_functions(2);
    validation.action = "validation_step".into();
    validation.sub_stage = Some(Stage::SanityCheck);
    let mut report = advanced(vec![with_functions(3), validation]);
    (report.header.rank, report.header.world_size) = (1, 4);
    let tables = [3, 2].map(|count| by_python(&with_functions(count), "1.0"));
    let expected = [
        "FIT Profiler Report",
        "Profile stats for: run_training_batch rank: 1",
        &tables[0],
        "Profile stats for: [SanityCheck]validation_step rank: 1",
        &tables[1],
    ];
    assert_eq!(pstats::paint(&report, Share(1.0)), expected.join("\n"));
}

#[test]
fn without_a_trainer_there_is_no_rank() {
    let mut report = advanced(vec![with_functions(1)]);
    report.header.stage = None;
    let text = pstats::paint(&report, Share(1.0));
    assert!(text.starts_with("Profiler Report\nProfile stats for: run_training_batch\n"), "{text}");
}

#[test]
fn files_of_one_name_are_not_merged() {
    let (here, there) = (key("src/a/mod.rs", 7, "new"), key("src/b/mod.rs", 7, "new"));
    let other = key("src/b/mod.rs", 9, "drop");
    let one_call = |key| function(key, calls(1, 1, 0.5, 0.5), &[]);
    let mut profile = with_functions(0);
    profile.functions = vec![one_call(&here), one_call(&there), one_call(&other)];
    let text = pstats::paint(&advanced(vec![profile]), Share(1.0));
    for label in [" src/a/mod.rs:7(new)\n", " src/b/mod.rs:7(new)\n", " mod.rs:9(drop)\n"] {
        assert!(text.contains(label), "{label:?} is missing in {text}");
    }
}

#[test]
fn awkward_names_keep_to_their_line() {
    let mut profile = with_functions(0);
    profile.action = "a\nb".into();
    let names = ["", "a\nb\tc", "<", "<>", "🔥", &"x".repeat(10_000)].map(str::to_owned);
    profile.functions =
        names.iter().map(|name| function(&key("~", 0, name), calls(1, 1, 0.0, 0.0), &[])).collect();
    let report = advanced(vec![profile]);
    let text = pstats::paint(&report, Share(1.0));
    assert!(text.contains("Profile stats for: a\\nb rank: 0\n"), "{text}");
    let table = &text[text.find("ncalls").expect("a table")..];
    let lines = table.lines().skip(1).take_while(|line| !line.is_empty());
    assert_eq!(lines.count(), names.len(), "{text}");
    assert!(text.lines().all(|line| line.chars().count() < 260));
}

#[test]
fn an_action_without_functions_has_totals_only() {
    // Python refuses to open such a profile, so the text is fixed here.
    let text = pstats::paint(&advanced(vec![with_functions(0)]), Share(1.0));
    assert!(
        text.ends_with("_batch rank: 0\n         0 function calls in 0.000 seconds\n\n"),
        "{text}"
    );
}

#[test]
fn open_actions_come_last_and_nothing_is_a_report_too() {
    let mut report: AdvancedReport = advanced(vec![]);
    assert_eq!(pstats::paint(&report, Share(1.0)), "FIT Profiler Report\n");
    report.actions.push(with_functions(3));
    report.open.push(open("run_training_epoch", "main", 0.5));
    let text = pstats::paint(&report, Share(1.0));
    assert!(
        text.ends_with("\n\nStill running: run_training_epoch on main for 0.500 s\n"),
        "{text}"
    );
}
