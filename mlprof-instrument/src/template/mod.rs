//! Text that is added to the root of an instrumented crate.

use super::rules::{CrateRules, RuleFile};

/// All template files.
pub(super) const TEXTS: [&str; 8] =
    [HOOKS, TENSORS, TYPES, TYPE, BOUND, OUTPUTS, OUTPUT_TYPE, super::lines::TEMPLATE];

const HOOKS: &str = include_str!("hooks.rs");
const TENSORS: &str = include_str!("tensors.rs");
const TYPES: &str = include_str!("types.rs");
const TYPE: &str = include_str!("type.rs");
const BOUND: &str = include_str!("bound.rs");
const OUTPUTS: &str = include_str!("outputs.rs");
const OUTPUT_TYPE: &str = include_str!("output_type.rs");

/// Returns the text for a crate with these rules, on one line. `has_lines` adds line profiling.
/// `tells_outputs` returns `true` for rules whose outputs are reported.
pub(super) fn root_text(
    rules: &[(&RuleFile, &CrateRules)],
    has_lines: bool,
    tells_outputs: impl Fn(&CrateRules) -> bool,
) -> String {
    let mut hooks = one_line(HOOKS);
    let (mut types, mut bound, mut read) = (String::new(), String::new(), String::new());
    for (file, rules, tensor) in rules
        .iter()
        .flat_map(|(file, rules)| rules.tensors.iter().map(move |one| (file, rules, one)))
    {
        let (template, text, name) = match (&tensor.name, &tensor.bound) {
            (Some(name), _) => (TYPE, &mut types, name),
            (None, Some(name)) => (BOUND, &mut bound, name),
            (None, None) => continue,
        };
        let codes: String = file
            .dtypes
            .iter()
            .map(|(variant, dtype)| {
                format!("{}::{variant} => {}, ", tensor.dtype_enum, dtype.code())
            })
            .collect();
        let fill = |template: &str| {
            one_line(template)
                .replace("/*TYPE*/", name)
                .replace("/*DTYPE*/", &tensor.dtype)
                .replace("/*CODES*/", &format!("{codes} _ => {}", super::rules::OTHER))
                .replace("/*DIMENSIONS*/", &tensor.dimensions)
        };
        text.push_str(&fill(template));
        if let Some(numbers) = tensor.numbers.as_ref().filter(|_| tells_outputs(rules)) {
            read.push_str(&fill(OUTPUT_TYPE).replace("/*NUMBERS*/", numbers));
        }
    }
    let tensors = if types.is_empty() && bound.is_empty() {
        String::new()
    } else {
        let wrappers = if bound.is_empty() { one_line(TYPES) } else { bound };
        one_line(TENSORS).replace("/*TYPES*/", &(types + &wrappers))
    };
    let outputs =
        if read.is_empty() { String::new() } else { one_line(OUTPUTS).replace("/*TYPES*/", &read) };
    let tensors = tensors + &outputs;
    let lines = if has_lines { one_line(super::lines::TEMPLATE) } else { String::new() };
    hooks = hooks.replace("/*TENSORS*/", &tensors).replace("/*LINES*/", &lines);
    // The 2015 edition does not support this path, and a program may have its own module with this
    // name.
    hooks = hooks.replace("::core::", "__core::");
    // Users write rules by hand, so line breaks in them are also removed.
    hooks.replace(['\n', '\r'], " ")
}

/// Removes comments, which must be on their own lines, and line breaks.
pub(super) fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect();
    lines.join(" ") + " "
}
