//! Op names in XProf's format `path/name:type`. XProf shows other names in the time line but not in
//! the op tables.

/// Returns the XProf name of an op in a module. `module` is the module's name in the trace
/// (`[module]Linear: encoder.head`), or empty.
///
/// The path consists of letters, digits and `_./>-`, and begins with a letter, a digit or a dot.
/// The type is an identifier.
pub(super) fn op(module: &str, op: &str) -> String {
    let name = path(&op.replace("::", "."));
    let kind = word(op.rsplit("::").next().unwrap_or(op));
    match path(&path_of_module(module).replace('.', "/")) {
        module if module.is_empty() => format!("{name}:{kind}"),
        module => format!("{module}/{name}:{kind}"),
    }
}

/// Returns the path of a module in the model. The path follows the module's type, or is the whole
/// name if there is no type.
fn path_of_module(module: &str) -> &str {
    let named = module.rsplit(']').next().unwrap_or(module);
    let named = named.strip_prefix("nn.Module: ").unwrap_or(named);
    named.split_once(": ").map_or(named, |(_, path)| path)
}

fn path(text: &str) -> String {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_./>-".contains(letter);
    let path: String =
        text.trim().chars().map(|letter| if is_allowed(letter) { letter } else { '_' }).collect();
    match path.chars().next() {
        Some(first) if !first.is_ascii_alphanumeric() && first != '.' => format!(".{path}"),
        _ => path,
    }
}

fn word(text: &str) -> String {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let word: String =
        text.chars().map(|letter| if is_allowed(letter) { letter } else { '_' }).collect();
    // XProf recognises TensorFlow's types, which begin with a capital or `_`, and JAX's types,
    // which have no capitals.
    let is_tensorflow = |first: char| first.is_ascii_uppercase() || first == '_';
    let is_jax = |first: char| {
        first.is_ascii_lowercase() && !word.contains(|letter: char| letter.is_ascii_uppercase())
    };
    match word.chars().next() {
        Some(first) if is_tensorflow(first) || is_jax(first) => word,
        _ => format!("_{word}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_have_a_path_and_a_type() {
        assert_eq!(op("", "aten::mm"), "aten.mm:mm");
        assert_eq!(op("[module]Linear: encoder.head", "aten::mm"), "encoder/head/aten.mm:mm");
        assert_eq!(op("[pl][module]torch.nn.Linear: net.0", "matmul"), "net/0/matmul:matmul");
        assert_eq!(op("nn.Module: Linear_0", "aten::addmm"), "Linear_0/aten.addmm:addmm");
        assert_eq!(op("[module]Sequential", "a b"), "Sequential/a_b:a_b");
        assert_eq!(op("", "SumBackward0"), "SumBackward0:SumBackward0");
        assert_eq!(op("", "torch::accumulateGrad"), "torch.accumulateGrad:_accumulateGrad");
    }

    #[test]
    fn hostile_names_become_paths_and_words() {
        assert_eq!(op("", "<lambda>::3d"), "._lambda>.3d:_3d");
        assert_eq!(op("", ""), ":_");
        assert_eq!(op("[module]X: ünder", "größe"), "._nder/gr__e:gr__e");
    }
}
