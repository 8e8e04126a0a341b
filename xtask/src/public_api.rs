//! `cargo xtask public-api`: compares the public items of the published crates with stored lists.

use crate::libtorch::{Libtorch, workspace};
use crate::steps::{Step, run_all};

/// Folder of the stored lists, one per crate.
const LISTS: &str = "docs/api";

/// Compares the lists, or writes them if `writes` is set.
pub fn run(writes: bool) -> Result<(), String> {
    run_all(&[step(writes)?])
}

/// Returns the step that compares or writes the lists.
pub fn step(writes: bool) -> Result<Step, String> {
    let title = if writes { "writing the public items" } else { "public items" };
    let program = "run --quiet -p xtask-public-api --";
    let step = Step::cargo(title, program);
    let step = if writes { step.argument("--write") } else { step };
    // tch's build script always looks for libtorch.
    let libtorch = Libtorch::of_workspace()?.variables();
    Ok(step.argument(workspace().join(LISTS)).variables(&libtorch))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::metadata;
    use crate::packages::published;

    /// Public items of all published crates together.
    const MOST_ITEMS: usize = 900;
    /// Structs with public fields that a program constructs itself.
    const CONSTRUCTED: [&str; 1] = ["TableOptions"];

    /// Checks that each published library has a list. The command's library is excluded, because
    /// only its tests use it, and so are libraries that only the command uses.
    #[test]
    fn each_published_library_has_a_list() {
        let published = published().expect("cargo knows them");
        let names = published.iter().map(metadata::name);
        for name in names.filter(|name| !["mlprof", "mlprof-instrument"].contains(name)) {
            let list = workspace().join(LISTS).join(format!("{name}.txt"));
            assert!(list.is_file(), "{} is not there", list.display());
        }
    }

    /// The items of a list, each once: methods of implemented traits have the trait's names.
    fn own_items(list: &str) -> BTreeSet<String> {
        const KINDS: [&str; 10] =
            ["fn", "struct", "enum", "trait", "const", "static", "type", "macro", "mod", "proc"];
        let mut is_of_trait = false;
        let mut items = BTreeSet::new();
        for line in list.lines() {
            if line.starts_with("impl") || line.starts_with("unsafe impl") {
                is_of_trait = line.contains(" for ");
            }
            let line = line.trim_start_matches("#[non_exhaustive] ");
            let Some(item) = line.strip_prefix("pub ") else { continue };
            let mut words = item.split(' ').skip_while(|word| ["const", "unsafe"].contains(word));
            let Some(kind) = words.next().filter(|kind| KINDS.contains(kind)) else { continue };
            if is_of_trait && ["fn", "type", "const"].contains(&kind) {
                continue;
            }
            is_of_trait = false;
            let path = without_generics(&words.collect::<Vec<_>>().join(" "));
            let path = path.split([' ', '=']).next().unwrap_or_default().trim_end_matches(':');
            items.insert(format!("{kind} {}", path.replace("::prelude", "")));
        }
        items
    }

    /// Removes everything in angle brackets, and everything from the first parenthesis outside of
    /// them, so that the methods of generic types have paths of their own.
    fn without_generics(item: &str) -> String {
        let mut depth = 0_u32;
        let mut path = String::new();
        for letter in item.chars() {
            match letter {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                '(' if depth == 0 => break,
                _ if depth == 0 => path.push(letter),
                _ => {}
            }
        }
        path
    }

    #[test]
    fn methods_of_generic_types_are_counted() {
        let list = "pub fn a::Layer<M>::new(M, impl Fn(&M) -> u8) -> Self\n\
                    pub fn a::Layer<M>::into_inner(self) -> M\n\
                    pub struct a::prelude::Layer<M>(_)\n";
        let items = ["fn a::Layer::into_inner", "fn a::Layer::new", "struct a::Layer"];
        assert_eq!(own_items(list).into_iter().collect::<Vec<_>>(), items);
    }

    fn lists() -> Vec<String> {
        let folder = fs::read_dir(workspace().join(LISTS)).expect("the lists");
        let files = folder.map(|file| file.expect("a file").path());
        files.map(|file| fs::read_to_string(file).expect("a list")).collect()
    }

    #[test]
    fn the_public_surface_stays_small() {
        let items: usize = lists().iter().map(|list| own_items(list).len()).sum();
        assert!(items <= MOST_ITEMS, "{items} public items, at most {MOST_ITEMS} are wanted");
    }

    #[test]
    fn other_programs_do_not_construct_report_values() {
        let list = fs::read_to_string(workspace().join(LISTS).join("mlprof-report.txt"));
        let list = list.expect("the list");
        let structs = list.lines().filter_map(|line| line.strip_prefix("pub struct "));
        let has_fields = |path: &&str| {
            let field = format!("pub {path}::");
            list.lines().any(|line| line.starts_with(&field) && line.contains(": "))
        };
        let open = structs
            .filter(has_fields)
            .filter(|path| !CONSTRUCTED.iter().any(|name| path.ends_with(&format!("::{name}"))));
        let open: Vec<_> = open.collect();
        assert_eq!(open, Vec::<&str>::new(), "without #[non_exhaustive]");
    }
}
