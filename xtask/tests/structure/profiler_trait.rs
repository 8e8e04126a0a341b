//! Checks that the trait which programs implement stays small.

/// Returns the names of all methods of the trait `Profiler`, including hidden ones.
pub fn methods(source: &str) -> Vec<String> {
    let declaration = "pub trait Profiler:";
    let body = source.split_once(declaration).map_or("", |(_, body)| body);
    let body = body.split_once("\n}").map_or(body, |(body, _)| body);
    let names = body.lines().filter_map(|line| {
        // Methods are indented by one level, and their bodies by more.
        let line = line.strip_prefix("    ").filter(|line| !line.starts_with(' '))?;
        let line = ["const ", "async ", "unsafe "]
            .iter()
            .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
        let name = line.strip_prefix("fn ")?;
        Some(name.split(['(', '<']).next().unwrap_or(name).to_owned())
    });
    names.collect()
}

#[test]
fn methods_are_counted_also_hidden_ones() {
    let source = "pub trait Profiler: Send + Sync {\n    /// Opens.\n    fn start(&self);\n\n    \
                  #[doc(hidden)]\n    fn hidden<T>(&self) {\n        fn inner() {}\n    }\n}\n\n\
                  pub trait Other {\n    fn other(&self);\n}\n";
    assert_eq!(methods(source), ["start", "hidden"]);
}
