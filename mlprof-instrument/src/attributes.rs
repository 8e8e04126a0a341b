//! Detects attributes that may change a function's body.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Lit, Meta, Token};

/// Attributes that keep a body unchanged: the compiler's own ones, and macros that are known to
/// keep the statements they are given.
const HARMLESS: [&str; 60] = [
    "allow",
    "async_std::main",
    "async_std::test",
    "async_trait",
    "async_trait::async_trait",
    "automatically_derived",
    "bench",
    "cfg",
    "cold",
    "coverage",
    "deny",
    "deprecated",
    "diagnostic::do_not_recommend",
    "diagnostic::on_unimplemented",
    "doc",
    "expect",
    "export_name",
    "forbid",
    "ignore",
    "inline",
    "instruction_set",
    "instrument",
    "link_section",
    "macro_export",
    "macro_use",
    "must_use",
    "no_implicit_prelude",
    "no_mangle",
    "non_exhaustive",
    "optimize",
    "path",
    "proc_macro",
    "proc_macro_attribute",
    "proc_macro_derive",
    "profiled",
    "rstest",
    "rstest::rstest",
    "rustfmt::skip",
    "rustversion::all",
    "rustversion::any",
    "rustversion::before",
    "rustversion::nightly",
    "rustversion::not",
    "rustversion::since",
    "rustversion::stable",
    "serial",
    "serial_test::serial",
    "should_panic",
    "smol_potat::main",
    "target_feature",
    "test",
    "test_case",
    "test_log::test",
    "tokio::main",
    "tokio::test",
    "tracing::instrument",
    "track_caller",
    "traced_test",
    "tracing_test::traced_test",
    "warn",
];

/// Returns the first attribute that may change a body arbitrarily, if any.
pub(super) fn owner_of_body(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| unknown(&attribute.meta))
}

pub(super) fn unknown(meta: &Meta) -> Option<String> {
    let name = path_text(meta.path());
    match name.as_str() {
        "cfg_attr" => conditional(meta).iter().find_map(unknown),
        "unsafe" => nested(meta).iter().find_map(unknown),
        _ if name.starts_with("clippy::") || HARMLESS.contains(&name.as_str()) => None,
        // The attribute macro of the core and of each plugin.
        _ if name.starts_with("mlprof_") && name.ends_with("::prelude::profiled") => None,
        _ => Some(name),
    }
}

/// Returns `true` if an attribute of this name is present, possibly under a condition.
pub(super) fn has(attributes: &[Attribute], name: &str) -> bool {
    fn is(meta: &Meta, name: &str) -> bool {
        let path = path_text(meta.path());
        match path.as_str() {
            "cfg_attr" => conditional(meta).iter().any(|meta| is(meta, name)),
            "unsafe" => nested(meta).iter().any(|meta| is(meta, name)),
            _ => path == name,
        }
    }
    attributes.iter().any(|attribute| is(&attribute.meta, name))
}

/// Returns the value of `#[name = "…"]`, also in `unsafe(…)` and under a condition.
pub(super) fn value(attributes: &[Attribute], name: &str) -> Option<String> {
    fn of(meta: &Meta, name: &str) -> Option<String> {
        match path_text(meta.path()).as_str() {
            "cfg_attr" => conditional(meta).iter().find_map(|meta| of(meta, name)),
            "unsafe" => nested(meta).iter().find_map(|meta| of(meta, name)),
            _ => text_value(meta, name),
        }
    }
    attributes.iter().find_map(|attribute| of(&attribute.meta, name))
}

/// Returns the values of `#[path = "…"]`, including those under a condition. The second value is
/// `true` if one of them is unconditional.
pub(super) fn paths(attributes: &[Attribute]) -> (Vec<String>, bool) {
    let (mut paths, mut is_certain) = (Vec::new(), false);
    for attribute in attributes {
        if let Some(path) = path_value(&attribute.meta) {
            paths.push(path);
            is_certain = true;
        } else if attribute.path().is_ident("cfg_attr") {
            paths.extend(conditional(&attribute.meta).iter().filter_map(path_value));
        }
    }
    (paths, is_certain)
}

fn path_value(meta: &Meta) -> Option<String> {
    text_value(meta, "path")
}

fn text_value(meta: &Meta, name: &str) -> Option<String> {
    let Meta::NameValue(pair) = meta else { return None };
    if !pair.path.is_ident(name) {
        return None;
    }
    let mut value = &pair.value;
    // A macro expression fragment is wrapped in an invisible group.
    while let Expr::Group(group) = value {
        value = &group.expr;
    }
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the attributes that a `cfg_attr` adds under its condition.
fn conditional(meta: &Meta) -> Vec<Meta> {
    let mut all = nested(meta);
    if !all.is_empty() {
        all.remove(0);
    }
    all
}

pub(super) fn nested(meta: &Meta) -> Vec<Meta> {
    let Meta::List(list) = meta else { return Vec::new() };
    let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
    list.parse_args_with(parser).map(|all| all.into_iter().collect()).unwrap_or_default()
}

pub(super) fn path_text(path: &syn::Path) -> String {
    let names: Vec<String> =
        path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    names.join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(text: &str) -> Vec<Attribute> {
        let item: syn::ItemFn = syn::parse_str(&format!("{text} fn f() {{}}")).expect("a function");
        item.attrs
    }

    #[test]
    fn only_unknown_attributes_own_a_body() {
        let owner = |text: &str| owner_of_body(&attributes(text));
        assert_eq!(owner("#[inline] #[cfg(unix)] /** x */ #[clippy::msrv = \"1\"]"), None);
        assert_eq!(owner("#[cfg_attr(feature = \"t\", tracing::instrument(skip(x)))]"), None);
        assert_eq!(owner("#[profiled] #[mlprof_candle::prelude::profiled(name = \"n\")]"), None);
        assert_eq!(owner("#[cube]"), Some("cube".to_owned()));
        assert_eq!(
            owner("#[cfg_attr(not(x), inline, a::cube(launch))]"),
            Some("a::cube".to_owned())
        );
        assert_eq!(owner("#[unsafe(no_mangle)]"), None);
        assert!(has(&attributes("#[unsafe(naked)]"), "naked"));
        assert!(has(&attributes("#[cfg_attr(x, track_caller)]"), "track_caller"));
        assert!(!has(&attributes("#[inline]"), "track_caller"));
    }

    #[test]
    fn paths_are_found_with_and_without_a_condition() {
        assert_eq!(paths(&attributes("#[path = \"a.rs\"]")), (vec!["a.rs".to_owned()], true));
        let text = "#[cfg_attr(unix, path = \"u.rs\")] #[cfg_attr(windows, path = \"w.rs\")]";
        assert_eq!(paths(&attributes(text)), (vec!["u.rs".to_owned(), "w.rs".to_owned()], false));
        assert_eq!(paths(&attributes("#[inline]")), (vec![], false));
    }
}
