//! `cargo xtask public-api`: the public items of the published crates, beside the lists that are kept of
//! them.

use crate::libtorch::{Libtorch, workspace};
use crate::steps::{Step, run_all};

/// Where the lists are kept, one for each crate.
const LISTS: &str = "docs/api";

/// Compares them, or writes them anew.
pub fn run(writes: bool) -> Result<(), String> {
    run_all(&[step(writes)?])
}

/// The step that does so.
pub fn step(writes: bool) -> Result<Step, String> {
    let title = if writes { "writing the public items" } else { "public items" };
    let program = "run --quiet -p xtask-public-api --";
    let step = Step::cargo(title, program);
    let step = if writes { step.argument("--write") } else { step };
    // tch's build script looks for libtorch whatever is built.
    let libtorch = Libtorch::of_workspace()?.variables();
    Ok(step.argument(workspace().join(LISTS)).variables(&libtorch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata;
    use crate::packages::published;

    /// But for the command, whose library is for its own tests, and for what only the command uses.
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
