//! How hooks put names together, so that every framework's rows read alike.

/// `[{kind}]{type_name}.{hook}`: a method of something that can be replaced.
///
/// ```
/// use profiler_core::names::hook;
/// assert_eq!(hook("Callback", "ProgressBar", "on_fit_start"), "[Callback]ProgressBar.on_fit_start");
/// ```
pub fn hook(kind: &str, type_name: &str, hook: &str) -> String {
    format!("[{kind}]{type_name}.{hook}")
}

/// `[module]{type_name}: {path}`: a layer of a model, at its place in the model.
///
/// ```
/// use profiler_core::names::module;
/// assert_eq!(module("Linear", "encoder.head"), "[module]Linear: encoder.head");
/// ```
pub fn module(type_name: &str, path: &str) -> String {
    format!("[module]{type_name}: {path}")
}

/// A type's name without its path and without its generic arguments.
///
/// ```
/// use profiler_core::names::short_type_name;
///
/// struct Net<B>(B);
/// assert_eq!(short_type_name::<Net<Vec<u8>>>(), "Net");
/// ```
///
/// Closures have no name of their own: they are all called `closure`.
pub fn short_type_name<T: ?Sized>() -> &'static str {
    match last_segment(std::any::type_name::<T>()) {
        "{{closure}}" => "closure",
        name => name,
    }
}

/// The last part of a path, up to its generic arguments. Parts may themselves hold paths in angle
/// brackets, as in `<Net as Forward>::run::{{closure}}`.
fn last_segment(path: &str) -> &str {
    let (mut depth, mut start) = (0_usize, 0);
    for (position, byte) in path.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            // Not the end of an arrow, `fn() -> T`.
            b'>' if !path[..position].ends_with('-') => depth = depth.saturating_sub(1),
            b':' if depth == 0 => start = position + 1,
            _ => {}
        }
    }
    let segment = &path[start..];
    match segment.find('<') {
        Some(end) if end > 0 => &segment[..end],
        _ => segment,
    }
}

#[cfg(test)]
mod tests {
    use super::last_segment;

    #[test]
    fn the_last_part_is_found_behind_paths_in_brackets() {
        assert_eq!(last_segment("u8"), "u8");
        assert_eq!(last_segment("model::Net<alloc::vec::Vec<u8>>"), "Net");
        assert_eq!(last_segment("<model::Net as model::Forward>::run::{{closure}}"), "{{closure}}");
        assert_eq!(last_segment("a::Func<fn(b::C) -> d::E>"), "Func");
        assert_eq!(last_segment("<T>"), "<T>");
        assert_eq!(last_segment(""), "");
    }
}
