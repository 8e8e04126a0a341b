//! The `mlprof` command.

fn main() {}
