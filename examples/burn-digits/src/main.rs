//! Digits.
fn main() {}
