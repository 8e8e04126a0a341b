//! Wrong uses of `#[profiled]`, and what the compiler says about them.

#[test]
fn wrong_uses_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
