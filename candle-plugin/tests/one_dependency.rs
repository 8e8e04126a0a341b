//! Checks that a program needs only this crate for `profile!` and `#[profiled]`.

#[path = "../../mlprof-macros/tests/one_dependency/mod.rs"]
mod one_dependency;

#[test]
fn a_program_may_name_this_crate_alone() {
    one_dependency::compiles("mlprof_candle");
}

/// Links the program with the dependencies of this test. With a separate package, cargo would build
/// all of them again.
#[test]
fn a_program_with_this_dependency_alone_measures_itself() {
    let said = one_dependency::runs("mlprof_candle");
    assert!(said.contains("all of it was measured"), "{said}");
}
