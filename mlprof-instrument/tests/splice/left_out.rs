//! Tests that functions without hooks are listed with a reason, and that they do not affect other
//! functions.

use std::path::PathBuf;

use mlprof_instrument::{SelectionBuilder, SplicedCrate, splice_crate};
use tempfile::TempDir;

/// Instruments all functions of a crate with one file.
fn spliced(text: &str) -> (TempDir, PathBuf, SplicedCrate) {
    let folder = TempDir::new().expect("a folder");
    let root = folder.path().join("lib.rs");
    std::fs::write(&root, text).expect("a file");
    let selection = SelectionBuilder::default().functions(["it"]).expect("a pattern").build();
    let spliced = splice_crate(&root, "it", &selection).expect("the root is there");
    (folder, root, spliced)
}

fn reasons(text: &str) -> Vec<String> {
    let (_folder, _, spliced) = spliced(text);
    assert!(spliced.files.is_empty() || !spliced.spliced.is_empty());
    let left_out = spliced.left_out.iter();
    left_out.map(|one| format!("{}: {}", &one.path["it::".len()..], one.reason)).collect()
}

#[test]
fn bodies_that_belong_to_attributes_stay_as_they_are() {
    let owned = "`#[cube]` may transform the function body";
    assert_eq!(
        reasons("#[cube] fn f() { fn g() {} }"),
        [format!("f: {owned}"), format!("f::g: {owned}")]
    );
    assert_eq!(reasons("#[cube] impl T { fn f() {} }"), [format!("T::f: {owned}")]);
    assert_eq!(reasons("#[cube] mod m { fn f() {} }"), [format!("m::f: {owned}")]);
    assert_eq!(reasons("#[inline] #[cfg_attr(x, tracing::instrument)] fn f() {}"), [""; 0]);
    assert_eq!(reasons("#[async_trait] impl A for B { async fn f(&self) {} }"), [""; 0]);
    let text = "#[unsafe(naked)] fn f() { asm() }";
    assert_eq!(reasons(text), ["f: a naked function may contain only assembly"]);
    let text = "unsafe impl GlobalAlloc for A { unsafe fn alloc(&self, l: L) -> *mut u8 { x() } }";
    assert_eq!(reasons(text), ["A::alloc: hooks themselves allocate with this allocator"]);
    let text = "#[track_caller] async fn f() {} #[track_caller] fn g() {}";
    assert_eq!(
        reasons(text),
        ["f: a hook would change the caller that an `async fn` with `#[track_caller]` sees"]
    );
}

#[test]
fn macros_that_others_use_stay_as_they_are() {
    let made = "macro_rules! m { ($f:ident) => { pub fn $f() {} } } m!(f);";
    assert_eq!(reasons(made), [""; 0]);
    let exported = format!("#[macro_export] {made}");
    assert_eq!(reasons(&exported), ["f: an exported macro generates it, also in other crates"]);
    let text = "macro_rules! m { ($f:ident) => { const fn $f() {} } } m!(f);";
    let expected = ["f: a macro generates this `const fn`, which may run in the compiler"];
    assert_eq!(reasons(text), expected);
    // Without a call, the macro generates no function.
    assert_eq!(reasons("macro_rules! m { ($f:ident) => { const fn $f() {} } }"), [""; 0]);
}

#[test]
fn items_under_conditions_are_found() {
    let (_folder, _, spliced) = spliced(
        "cfg_if::cfg_if! { if #[cfg(unix)] { fn u() {} mod m { fn v() {} } } else { fn w() {} } }",
    );
    assert_eq!(spliced.seen, ["it::u", "it::m::v", "it::w"]);
    assert_eq!(spliced.spliced.len(), 3);
}

#[test]
fn a_crate_that_cannot_be_parsed_stays_as_it_is() {
    let (_folder, root, result) = spliced("fn f() {");
    assert!(result.files.is_empty() && result.spliced.is_empty());
    assert_eq!(result.unread[0].path, root);
    let (folder, _, _) = spliced("mod broken; mod missing; fn f() {}");
    std::fs::write(folder.path().join("broken.rs"), "\nfn {").expect("a file");
    let selection = SelectionBuilder::default().functions(["it"]).expect("a pattern").build();
    let result = splice_crate(&folder.path().join("lib.rs"), "it", &selection).expect("a crate");
    assert_eq!(result.unread.len(), 1);
    assert!(result.unread[0].reason.starts_with("line 2: "), "{}", result.unread[0].reason);
    assert_eq!(result.spliced.len(), 1);
    assert!(splice_crate(&folder.path().join("no.rs"), "it", &selection).is_err());
}

#[test]
fn a_crate_that_is_not_selected_is_not_even_read() {
    let selection = SelectionBuilder::default().functions(["other"]).expect("a pattern").build();
    let result = splice_crate("/no/such/file.rs".as_ref(), "it", &selection).expect("nothing");
    assert_eq!(result, SplicedCrate::default());
}

#[test]
fn macros_that_generate_functions_elsewhere_are_named() {
    let (_folder, root, spliced) = spliced(
        "include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));
         #[derive(Debug, serde::Serialize)] struct A; #[derive(Serialize)] struct B;
         macro_rules! own { ($f:ident) => { fn $f() {} } } own!(f);
         others::items! { fn g() {} }
         fn h() { println!(\"\"); }",
    );
    let unseen: Vec<_> = spliced.unseen.iter().map(|one| (one.path.as_str(), one.line)).collect();
    let expected = [
        ("derive(Serialize)", 2),
        ("include!(concat!(env!(\"OUT_DIR\"),\"/made.rs\"))", 1),
        ("items!", 4),
    ];
    assert_eq!(unseen, expected);
    assert!(spliced.unseen[0].reason.ends_with("(2 times)") && spliced.unseen[0].file == root);
}

#[test]
fn words_of_later_editions_are_names_in_the_first() {
    let (_folder, _, spliced) = spliced("fn async() { try!(await::f()) } fn g() { async() }");
    assert_eq!((spliced.unread.len(), spliced.spliced.len()), (0, 2));
    assert_eq!(spliced.seen, ["it::async", "it::g"]);
}

#[test]
fn methods_of_traits_are_seen_with_type_and_trait() {
    let (_folder, _, spliced) = spliced("impl a::Tr<u8> for b::Ty<u8> { fn f() {} }");
    assert_eq!(spliced.seen, ["it::<Ty as Tr>::f"]);
    assert_eq!(spliced.spliced[0].name, "it::Ty::f");
}

#[test]
fn modules_and_functions_that_a_macro_makes_of_its_call_are_found() {
    let declared = "macro_rules! all { ($($m:ident),*) => { $(mod $m;)* } } all! { a, b }
                    mod c { again! { d } } macro_rules! again { ($m:ident) => { all!($m); } }
                    macro_rules! pass { ($($i:item)*) => { $($i)* } } pass! { fn f() {} }
                    impl T { methods!(g h); } macro_rules! methods { ($($m:ident)*) => { $(fn $m() {})* } }";
    let (folder, root, _) = spliced(declared);
    for (file, function) in [
        ("a.rs", "fn one() {}"),
        ("b/mod.rs", "mod deep;"),
        ("b/deep.rs", "fn two() {}"),
        ("c/d.rs", "fn three() {}"),
    ] {
        let file = folder.path().join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(file, function).expect("written");
    }
    let selection = SelectionBuilder::default().functions(["it::**"]).expect("a pattern").build();
    let spliced = splice_crate(&root, "it", &selection).expect("a crate");
    let mut names: Vec<_> = spliced.spliced.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    let expected =
        ["it::T::g", "it::T::h", "it::a::one", "it::b::deep::two", "it::c::d::three", "it::f"];
    assert_eq!(names, expected);
    assert_eq!((spliced.left_out.len(), spliced.unseen.len()), (0, 0));
    // A single generated function can be selected.
    let selection = SelectionBuilder::default().functions(["it::T::h"]).expect("a pattern").build();
    let spliced = splice_crate(&root, "it", &selection).expect("a crate");
    let names: Vec<_> = spliced.spliced.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(names, ["it::T::h"]);
}

#[test]
fn a_call_that_cannot_be_expanded_is_named() {
    let (_folder, root, spliced) = spliced(
        "macro_rules! odd { ($s:stmt) => { fn f() {} } }

         odd!(let x = 1);",
    );
    let unseen: Vec<_> = spliced.unseen.iter().map(|one| (one.path.as_str(), one.line)).collect();
    assert_eq!(unseen, [("odd!", 3)]);
    let unseen = &spliced.unseen[0];
    assert!(unseen.reason.contains("mlprof cannot expand the macro") && unseen.file == root);
}

#[test]
fn macros_that_call_each_other_without_end_are_given_up() {
    let (_folder, _, spliced) = spliced(
        "macro_rules! m { ($($t:tt)*) => { m! { $($t)* $($t)* } n!($($t)*); } } 
         macro_rules! n { ($($t:tt)*) => { m!($($t)* x); } } m! { fn } fn f() {}",
    );
    assert_eq!(spliced.spliced.len(), 1);
}

#[test]
fn functions_that_foreign_code_calls_have_hooks_but_for_handlers_of_signals() {
    let text = "#[no_mangle] pub extern \"C\" fn on_event(_: i32) {}
                extern \"C\" fn on_signal(_: i32) {} fn main() { signal(2, on_signal); }
                #[unsafe(no_mangle)] unsafe extern \"C\" fn malloc(_: usize) -> *mut u8 { f() }
                unsafe extern \"x86-interrupt\" fn handler() {}";
    let expected = [
        "on_signal: a hook cannot run in a signal handler",
        "malloc: it replaces the C library's `malloc`, which hooks may call",
        "handler: a hook cannot run in a function with the calling convention \"x86-interrupt\"",
    ];
    assert_eq!(reasons(text), expected);
}

#[test]
fn included_files_have_hooks_where_their_path_is_relative() {
    let (folder, root, _) = spliced("mod m { include!(\"made/one.rs\"); } include!(\"none.rs\");");
    std::fs::create_dir(folder.path().join("made")).expect("made");
    std::fs::write(folder.path().join("made/one.rs"), "mod two; fn f() {}").expect("written");
    std::fs::write(folder.path().join("made/two.rs"), "fn g() {}").expect("written");
    let selection = SelectionBuilder::default().functions(["it"]).expect("a pattern").build();
    let spliced = splice_crate(&root, "it", &selection).expect("a crate");
    assert_eq!(spliced.seen, ["it::m::f", "it::m::two::g"]);
    let files: Vec<_> = spliced.files.iter().map(|file| file.path.file_name()).collect();
    assert_eq!(files.len(), 3, "the root with what hooks need: {files:?}");
    let unseen: Vec<_> = spliced.unseen.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(unseen, ["include!(\"none.rs\")"]);
}
