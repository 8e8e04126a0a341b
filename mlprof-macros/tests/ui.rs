//! Tests of invalid uses of `#[profiled]` and of the resulting compiler errors.

#[test]
fn wrong_uses_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
