//! Path to `mlprof-core` in generated code: by its own name, or through a plugin.
//!
//! The arguments `--extern` of the compiler that runs this macro list the crates that the code may
//! name. A manifest is less reliable: it also lists dependencies of tests, other targets or other
//! features, and other build systems do not have one. If the arguments are not available, as in an
//! editor that runs macros in a separate process, the path is the usual name.

use std::path::Path;

use proc_macro2::{Ident, Span};
use syn::parse_quote;

/// Crates that re-export `mlprof-core` under that name.
const PLUGINS: [&str; 4] = ["mlprof_candle", "mlprof_burn", "mlprof_tch", "mlprof_train"];
const CORE: &str = "mlprof_core";

/// Returns the path of `mlprof-core` in the crate that is being compiled.
pub fn recorder_path() -> syn::Path {
    let externs = externs(std::env::args_os().filter_map(|it| it.into_string().ok()), read);
    let name = |name: &str| Ident::new(name, Span::call_site());
    let core = name(CORE);
    match reachable(&externs) {
        Some(Reachable::Directly(core)) => {
            let core = name(core);
            parse_quote!(::#core)
        }
        Some(Reachable::Through(plugin)) => {
            let plugin = name(plugin);
            parse_quote!(::#plugin::#core)
        }
        None => parse_quote!(::#core),
    }
}

/// A crate that the code may name.
#[derive(Debug, PartialEq)]
struct Extern {
    /// Name of the crate in the code.
    name: String,
    /// The crate's own name if its file is known, otherwise the name in the code.
    crate_name: String,
}

#[derive(Debug, PartialEq)]
enum Reachable<'name> {
    Directly(&'name str),
    Through(&'name str),
}

fn reachable(externs: &[Extern]) -> Option<Reachable<'_>> {
    let of = |name: &str| {
        let found = externs.iter().find(|one| one.crate_name == name);
        found.map(|found| found.name.as_str())
    };
    let through = || PLUGINS.into_iter().find_map(of).map(Reachable::Through);
    of(CORE).map(Reachable::Directly).or_else(through)
}

/// Returns the crates in the `--extern` arguments of a compiler, including those in argument files.
fn externs(
    arguments: impl IntoIterator<Item = String>,
    read: impl Fn(&str) -> Option<String>,
) -> Vec<Extern> {
    let mut all = Vec::new();
    for argument in arguments {
        match argument.strip_prefix('@').and_then(&read) {
            Some(lines) => all.extend(lines.lines().map(str::to_owned)),
            None => all.push(argument),
        }
    }
    let mut found = Vec::new();
    let mut all = all.into_iter();
    while let Some(argument) = all.next() {
        let value = match argument.strip_prefix("--extern") {
            Some("") => all.next(),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        found.extend(value.as_deref().and_then(parse));
    }
    found
}

fn read(file: &str) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

/// Parses `[options:]name[=path]`.
fn parse(value: &str) -> Option<Extern> {
    let (name, path) =
        value.split_once('=').map_or((value, None), |(name, path)| (name, Some(path)));
    let (options, name) = name.rsplit_once(':').unwrap_or(("", name));
    if options.split(',').any(|option| option == "noprelude") {
        return None;
    }
    // An example of a path is `libmlprof_core-0123456789abcdef.rmeta`.
    let stem = path.and_then(|path| Path::new(path).file_stem()?.to_str());
    let own = stem.and_then(|stem| stem.strip_prefix("lib")?.split('-').next());
    Some(Extern { name: name.to_owned(), crate_name: own.unwrap_or(name).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn externs_of(arguments: &str) -> Vec<Extern> {
        let file = "--edition=2024\n--extern\nmlprof_candle=/d/libmlprof_candle-1.rlib\n";
        let read = |name: &str| (name == "arguments").then(|| file.to_owned());
        externs(arguments.split(' ').map(str::to_owned), read)
    }

    #[test]
    fn the_core_is_found_by_whatever_name_it_has_or_through_a_plugin() {
        let both = externs_of(
            "rustc --crate-name app --extern mlprof_candle=/d/libmlprof_candle-1.rmeta --extern \
             mlprof_core=/d/libmlprof_core-2.rmeta",
        );
        assert_eq!(reachable(&both), Some(Reachable::Directly("mlprof_core")));
        let renamed =
            externs_of("rustc --extern priv:timing=/d/libmlprof_core-2.rmeta src/main.rs");
        assert_eq!(reachable(&renamed), Some(Reachable::Directly("timing")));
        let plugin = externs_of("rustc --extern proc_macro --extern=it=/d/libmlprof_burn-2.rlib");
        assert_eq!(reachable(&plugin), Some(Reachable::Through("it")));
        let of_a_test = externs_of("rustc @arguments -");
        assert_eq!(reachable(&of_a_test), Some(Reachable::Through("mlprof_candle")));
        let hidden = externs_of("rustc --extern noprelude:mlprof_core=/d/libmlprof_core-2.rlib");
        assert_eq!(reachable(&hidden), None);
        assert_eq!(reachable(&externs_of("rust-analyzer @missing")), None);
    }
}
