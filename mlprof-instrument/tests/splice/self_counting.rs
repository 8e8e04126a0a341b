//! Compares a program that counts its own calls with the counts of its hooks, for many kinds of
//! functions.

use std::collections::BTreeMap;

use mlprof_instrument::SelectionBuilder;

use crate::fixture::Fixture;

#[test]
fn a_program_that_counts_itself_counts_what_hooks_count() {
    let selection =
        SelectionBuilder::default().functions(["self_counting"]).expect("a pattern").build();
    let fixture = Fixture::new("self_counting", "2024", &[], &selection);
    let mut own: BTreeMap<String, u32> = fixture
        .printed()
        .lines()
        .skip(1)
        .filter_map(|line| {
            let (count, path) = line.split_once(' ')?;
            Some((path.to_owned(), count.parse().ok()?))
        })
        .collect();
    assert!(own.len() > 90, "{own:#?}");

    // Each function without a hook is listed with the reason.
    let left_out = fixture.result.left_out.iter();
    let left_out: Vec<_> = left_out.map(|one| (one.path.as_str(), one.reason.as_str())).collect();
    let expected = [
        ("self_counting::on_signal", "a hook cannot run in a signal handler"),
        ("self_counting::constant", "a `const fn` may run in the compiler"),
        ("self_counting::told_as_text", "the enclosing macro call repeats its text"),
    ];
    assert_eq!(left_out, expected);
    assert_eq!((fixture.result.unread.len(), fixture.result.unseen.len()), (0, 0));
    let not_measured = own.remove("told_as_text");
    assert_eq!(not_measured, Some(1));

    let record = fixture.run(2);
    let mut measured: BTreeMap<String, u32> = record
        .iter()
        .filter_map(|line| {
            // A line contains count, kind, path and location. A path such as that of `dyn Trait`
            // may contain a blank.
            let (count, rest) = line.split_once(' ')?;
            let (kind, rest) = rest.split_once(' ')?;
            let (path, _) = rest.rsplit_once(' ')?;
            let path = path.strip_prefix("self_counting::")?;
            // Later polls of async functions do not count.
            (kind == "0").then(|| (path.to_owned(), count.parse().expect("a count")))
        })
        .collect();
    // This function runs after the program has printed its counts.
    assert_eq!(measured.remove("at_exit_of_process"), Some(1));
    assert_eq!(measured, own);
}
