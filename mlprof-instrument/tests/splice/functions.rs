//! Tests the call counts of functions of all shapes.

use mlprof_instrument::{FunctionKind, HookKind, Selection, SelectionBuilder};

use crate::fixture::Fixture;

const FUNCTIONS: u32 = 2;

fn all(name: &str) -> Selection {
    SelectionBuilder::default().functions([name]).expect("a pattern").build()
}

/// Returns `count name` for each recorded line, without the crate's name. Later polls of an async
/// function are marked with `later`.
fn counts(record: &[String], name: &str) -> Vec<String> {
    let counts = record.iter().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let later = match words[1] {
            "0" => "",
            "5" => "later ",
            _ => panic!("{line}"),
        };
        let function = words[2].strip_prefix(&format!("{name}::")).unwrap_or(words[2]);
        format!("{} {later}{function}", words[0])
    });
    let mut counts: Vec<_> = counts.collect();
    counts.sort();
    counts
}

/// Sorted calls of all functions of the fixture, as determined by reading its source.
const AWKWARD: &str = "\
    1 Many::one, 1 Many::two, 1 Server::named, 1 Square::empty, 1 Square::into_inner, 1 Square::new, \
    1 Triangle::corners, 1 Triangle::drop, 1 [u8]::sides, 1 blocked, 1 caller, 1 closures, \
    1 closures::by_reference, 1 doubled, 1 foreign, 1 inline::deep::down, 1 inline::here, 1 is_empty, 1 later Server::named, 1 main, 1 main::later, \
    1 match, 1 nested, 1 nested::Local::method, 1 nested::inner, 1 nested::made_here, 1 never, \
    1 only_a_comment, 1 opaque, 1 pattern, 1 placed::neighbour::value, 1 placed::odd, \
    1 shape::Shape::consumed, 1 shape::Shape::corners, 1 shapes::area::helper::side, \
    1 shapes::area::square, 1 shapes::note, 18 Once::poll, \
    2 Square::sides, 2 closures::add, 2 closures::twice, 2 early, 2 generic, \
    2 on_threads, 2 tripled, 2 waits, 3 block_on, 3 on_threads::poll, 7 recursive, 8 later waits";

#[test]
fn awkward_functions_are_called_as_often_as_they_are() {
    let fixture = Fixture::new("awkward", "2024", &[], &all("awkward"));
    let record = fixture.run(FUNCTIONS);
    assert_eq!(counts(&record, "awkward").join(", "), AWKWARD);
    assert_eq!(fixture.result.unread, []);

    // The location is the line of the function's name, even if the brace is far away. For a macro's
    // function, it is the line of the call.
    let has = |line: &str| record.iter().any(|one| one == line);
    assert!(has("7 0 awkward::recursive main.rs:54"), "{record:#?}");
    assert!(has("1 0 awkward::doubled main.rs:30") && has("2 0 awkward::tripled main.rs:31"));
    assert!(has("1 0 awkward::shapes::area::helper::side shapes/area/helper.rs:1"));

    let left_out = fixture.result.left_out.iter();
    let left_out: Vec<_> = left_out.map(|one| (one.path.as_str(), one.reason.as_str())).collect();
    let expected = [("awkward::constant", "a `const fn` may run in the compiler")];
    assert_eq!(left_out, expected);
    let kind = |path: &str| {
        let function = fixture.result.spliced.iter().find(|one| one.path == path);
        function.map(|function| function.function)
    };
    assert_eq!(kind("awkward::recursive"), Some(FunctionKind::Free));
    assert_eq!(kind("awkward::Square::new"), Some(FunctionKind::Method));
    assert_eq!(kind("awkward::nested::inner"), Some(FunctionKind::Nested));
    assert_eq!(kind("awkward::closures::twice"), Some(FunctionKind::Closure));
    assert_eq!(kind("awkward::tripled"), Some(FunctionKind::Macro));
}

#[test]
fn nothing_is_recorded_that_is_not_wanted() {
    let fixture = Fixture::new("awkward", "2021", &[], &all("awkward"));
    assert_eq!(fixture.run(1 | 4 | 8 | 256), Vec::<String>::new());
}

#[test]
fn only_what_is_selected_has_a_hook() {
    let selection = SelectionBuilder::default()
        .functions(["awkward::*Square*::*", "awkward::Shape::corners", "awkward::tripled"])
        .and_then(|builder| builder.except(["awkward::Square::empty"]))
        .expect("patterns")
        .build();
    let fixture = Fixture::new("awkward", "2021", &[], &selection);
    let expected = [
        "1 Square::into_inner",
        "1 Square::new",
        "1 Triangle::corners",
        "2 Square::sides",
        "2 tripled",
    ];
    assert_eq!(counts(&fixture.run(FUNCTIONS), "awkward"), expected);
    // Only the root file changes, because it gets the module that hooks need.
    let files: Vec<_> = fixture.result.files.iter().map(|file| file.path.file_name()).collect();
    assert_eq!(files, [Some("main.rs".as_ref())]);
    let text = fixture.text("main.rs").expect("the root");
    assert!(text.starts_with("\u{feff}#!/usr/bin/env run-cargo-script\r\n//! What"));
    assert!(text.contains("#![deny  (unsafe_code)]"));
    assert_eq!(text.matches("\r\n").count(), text.matches('\n').count());
}

#[test]
fn lines_are_marked_together_with_calls() {
    let selection = all("awkward");
    let selection = SelectionBuilder::default()
        .functions(["awkward"])
        .and_then(|builder| builder.lines(["awkward"]))
        .and_then(|builder| builder.memory(["awkward::main"]))
        .map_or(selection, SelectionBuilder::build);
    let fixture = Fixture::checked("awkward", "2024", &selection);
    let spliced = fixture.result.spliced.iter();
    let of_lines: Vec<_> =
        spliced.filter(|one| one.kind == HookKind::Lines).map(|one| one.path.as_str()).collect();
    assert_eq!(of_lines.iter().filter(|path| **path == "awkward::main").count(), 1);
    assert!(of_lines.contains(&"awkward::waits") && of_lines.contains(&"awkward::Square::sides"));
    let text = fixture.text("main.rs").expect("the root");
    // The declaration contains the name, the file and the lines that can be hit.
    let declared = text.split("LineSite::new(\"awkward::main\", \"").nth(1).expect("declared");
    let (file, rest) = declared.split_once('"').expect("a file");
    let points = rest.split(['[', ']']).nth(1).expect("points").split(',').count();
    assert!(points > 20 && file.ends_with("main.rs"), "{file}: {points}");
}

#[test]
fn the_oldest_edition_has_hooks_too() {
    let fixture = Fixture::new("old", "2015", &[], &all("old"));
    let expected = [
        "1 Thing::value",
        "1 async",
        "1 inner::value",
        "1 main",
        "1 minus",
        "1 plus",
        "2 Thing::boxed",
    ];
    assert_eq!(counts(&fixture.run(FUNCTIONS), "old"), expected);
}

#[test]
fn a_crate_without_std_and_prelude_has_hooks_too() {
    for edition in ["2018", "2024"] {
        let selection = all("bare");
        let fixture = Fixture::new("bare", edition, &["lib.rs"], &selection);
        let expected = ["1 later", "1 main", "2 Counter::up"];
        assert_eq!(counts(&fixture.run(FUNCTIONS), "bare"), expected);
    }
}
