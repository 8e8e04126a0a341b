//! Derives the names of ops from the names of functions.

use super::function::FunctionProperties;
use super::rules::FunctionRule;

/// Returns the name that a rule gives to a function.
pub(super) fn hook_name(
    rule: &FunctionRule,
    framework: &str,
    found: &FunctionProperties<'_>,
) -> String {
    if let Some(expression) = &rule.named_by {
        return format!("{framework}::{{{expression}}}");
    }
    let function = found.path.name();
    let function = rule.strip.iter().find_map(|start| function.strip_prefix(start.as_str()));
    let function = function.unwrap_or(found.path.name());
    let segments = &found.path.segments;
    let owner = segments.len().checked_sub(2).map_or("", |place| &segments[place]);
    let stem = rule.strip_type.iter().find_map(|end| owner.strip_suffix(end.as_str()));
    let implemented = found.path.implemented.as_ref().map_or("", |(_, name)| name);
    let name = rule
        .name
        .replace("{function}", function)
        .replace("{type}", &snake_case(stem.unwrap_or(owner)))
        .replace("{trait}", &snake_case(implemented));
    let name = rule.rename.get(&name).unwrap_or(&name);
    if rule.kind.is_op() { format!("{framework}::{name}") } else { name.clone() }
}

/// Converts `MaxPool2D` to `max_pool2d`. A capital letter begins a word, unless a digit or another
/// capital letter precedes it.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut before: Option<char> = None;
    for letter in name.chars() {
        if letter.is_uppercase() && before.is_some_and(|before| before.is_lowercase()) {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
        before = Some(letter);
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::snake_case;

    #[test]
    fn type_names_become_words_as_ops_are_written() {
        let names =
            ["Matmul", "MaxPool2D", "Log1P", "AdaptiveAvgPool1D", "SGD", "Atan2", "IntoInt"];
        let words =
            ["matmul", "max_pool2d", "log1p", "adaptive_avg_pool1d", "sgd", "atan2", "into_int"];
        assert_eq!(names.map(snake_case), words);
    }
}
