//! Short names of fused blocks and kernels, which fit into a table.

use mlprof_core::Action;

/// Prefix of the names of fused blocks. All other ops are ops that the program called.
pub const FUSED: &str = "burn::fused[";

/// Maximum number of ops listed in a fused block's name.
const NAMED_OPS: usize = 6;

/// Returns a name such as `burn::fused[add, mul×3, relu, +4]`. It lists the first ops and collapses
/// repeated ops into a count.
pub(super) fn fused_name(block: &[Action]) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for action in block {
        let name = action.name();
        let name = name.strip_prefix("burn::").unwrap_or(name);
        match runs.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => runs.push((name, 1)),
        }
    }
    let mut parts: Vec<_> = runs.iter().take(NAMED_OPS).map(run_name).collect();
    let rest: usize = runs.iter().skip(NAMED_OPS).map(|(_, count)| count).sum();
    if rest > 0 {
        parts.push(format!("+{rest}"));
    }
    format!("{FUSED}{}]", parts.join(", "))
}

fn run_name((name, count): &(&str, usize)) -> String {
    if *count == 1 { (*name).to_owned() } else { format!("{name}×{count}") }
}

/// Maximum number of parts in a shortened kernel name.
const NAME_PARTS: usize = 6;

/// Shortens a cubecl kernel name. cubecl uses the full Rust type with all its parameters, which are
/// dozens for a matmul. The first few parameters that are not placeholders distinguish kernels.
pub(super) fn kernel_name(all: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in all.split(" | ") {
        let is_placeholder = part == "()" || part.starts_with("__") || part.starts_with("Dynamic");
        if !is_placeholder && !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.truncate(NAME_PARTS);
    if parts.is_empty() { all.to_owned() } else { parts.join(" | ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fused_block_is_named_by_its_ops_and_cut() {
        let block = |names: &[&str]| {
            let actions: Vec<_> = names.iter().map(|name| Action::op(name)).collect();
            fused_name(&actions)
        };
        assert_eq!(block(&["burn::add", "burn::relu"]), "burn::fused[add, relu]");
        let repeated = ["burn::mul", "burn::mul", "burn::add", "burn::mul"];
        assert_eq!(block(&repeated), "burn::fused[mul×2, add, mul]");
        let many = ["burn::a", "b", "c", "d", "e", "f", "g", "g", "h"];
        assert_eq!(block(&many), "burn::fused[a, b, c, d, e, f, +3]");
    }

    #[test]
    fn a_kernel_keeps_the_parts_of_its_name_that_say_something() {
        let name =
            "MatmulEntry | TensorArgs | DynamicScalar | __Lhs | SimpleFamily | () | A | A | B";
        assert_eq!(kernel_name(name), "MatmulEntry | TensorArgs | SimpleFamily | A | B");
        assert_eq!(kernel_name("UnaryNumeric | Copy"), "UnaryNumeric | Copy");
        assert_eq!(kernel_name("()"), "()");
    }
}
