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
    use super::*;
    use crate::metadata;
    use crate::packages::published;

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
}
