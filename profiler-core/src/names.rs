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
/// struct Net<B>(B);
/// assert_eq!(profiler_core::names::short_type_name::<Net<Vec<u8>>>(), "Net");
/// ```
pub fn short_type_name<T: ?Sized>() -> &'static str {
    let full = std::any::type_name::<T>();
    let path = full.split('<').next().unwrap_or(full);
    path.rsplit("::").next().unwrap_or(path)
}
