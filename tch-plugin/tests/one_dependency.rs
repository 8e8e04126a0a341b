//! Checks that a program needs only this crate for `profile!` and `#[profiled]`.

#[path = "../../mlprof-macros/tests/one_dependency/mod.rs"]
mod one_dependency;

#[test]
fn a_program_may_name_this_crate_alone() {
    one_dependency::compiles("mlprof_tch");
}
