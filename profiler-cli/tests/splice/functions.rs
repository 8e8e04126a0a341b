//! Functions of all shapes are called as often as they are known to be called.

use profiler_cli::splice::{FunctionKind, Selection, SelectionBuilder};

use crate::fixture::Fixture;

const FUNCTIONS: u32 = 2;

fn all(name: &str) -> Selection {
    SelectionBuilder::default().functions([name]).expect("a pattern").build()
}

/// `count name` of every recorded line, the crate's name left out.
fn counts(record: &[String], name: &str) -> Vec<String> {
    let counts = record.iter().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[1], "0", "{line}");
        let function = words[2].strip_prefix(&format!("{name}::")).unwrap_or(words[2]);
        format!("{} {function}", words[0])
    });
    let mut counts: Vec<_> = counts.collect();
    counts.sort();
    counts
}

#[test]
fn awkward_functions_are_called_as_often_as_they_are() {
    let fixture = Fixture::new("awkward", "2024", &[], &all("awkward"));
    let record = fixture.run(FUNCTIONS);
    let expected = "\
1 Server::named::… 2";
    let _ = expected;
    println!("{}", record.join("\n"));
    println!("{}", counts(&record, "awkward").join("\n"));
    println!("{:#?}", fixture.result.left_out);
    println!("{:#?}", fixture.result.unread);
    panic!();
}

#[test]
fn nothing_is_recorded_that_is_not_wanted() {
    let fixture = Fixture::new("awkward", "2021", &[], &all("awkward"));
    assert_eq!(fixture.run(4), Vec::<String>::new());
    let _ = FunctionKind::Free;
}
