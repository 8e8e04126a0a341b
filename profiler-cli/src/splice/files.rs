//! Where the files of modules are.

use std::path::{Path, PathBuf};

use syn::Attribute;

use super::attributes;

/// Where the modules that a file or an inline module declares are looked for.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    /// `mod x;` is `x.rs` or `x/mod.rs` in it.
    children: PathBuf,
    /// What `#[path]` is relative to.
    paths: PathBuf,
}

impl Folder {
    /// Of a file that is the folder's own: the crate's root, a `mod.rs`, or one named by `#[path]`.
    pub fn of_owner(file: &Path) -> Self {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        Self { children: folder.clone(), paths: folder }
    }

    /// Of any other file: `a.rs` has its modules in `a/`.
    fn of_other(file: &Path) -> Self {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let name = file.file_stem().unwrap_or_default();
        Self { children: folder.join(name), paths: folder }
    }

    /// Of a module that is written in the file.
    pub fn of_inline(&self, name: &str, attributes: &[Attribute]) -> Self {
        let (paths, is_certain) = attributes::paths(attributes);
        let folder = match paths.first() {
            Some(path) if is_certain => self.paths.join(path),
            _ => self.children.join(name),
        };
        Self { children: folder.clone(), paths: folder }
    }

    /// The files that `mod name;` may be, those that exist, each with its own folder. More than one
    /// where conditions decide.
    pub fn files_of(&self, name: &str, attributes: &[Attribute]) -> Vec<(PathBuf, Self)> {
        let (paths, is_certain) = attributes::paths(attributes);
        let by_path = paths.iter().map(|path| {
            let file = self.paths.join(path);
            let folder = Self::of_owner(&file);
            (file, folder)
        });
        let mut files: Vec<_> = by_path.collect();
        if !is_certain {
            let file = self.children.join(format!("{name}.rs"));
            let folder = Self::of_other(&file);
            files.push((file, folder));
            let file = self.children.join(name).join("mod.rs");
            let folder = Self::of_owner(&file);
            files.push((file, folder));
        }
        files.retain(|(file, _)| file.is_file());
        files
    }
}
