//! Finds the files of modules.

use std::path::{Component, Path, PathBuf};

use syn::Attribute;

use super::attributes;

/// Folders that are searched for the submodules of a file or an inline module.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    /// Folder of the submodules: `mod x;` is `x.rs` or `x/mod.rs` in it.
    children: PathBuf,
    /// Folder that `#[path]` is relative to.
    paths: PathBuf,
}

impl Folder {
    /// Returns the folder of a file that owns it: the crate's root, a `mod.rs`, or a file given by
    /// `#[path]`.
    pub fn of_owner(file: &Path) -> Self {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        Self { children: folder.clone(), paths: folder }
    }

    /// Returns the folder of any other file: `a.rs` has its submodules in `a/`.
    fn of_other(file: &Path) -> Self {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let name = file.file_stem().unwrap_or_default();
        Self { children: folder.join(name), paths: folder }
    }

    /// Returns the folder of an inline module.
    pub fn of_inline(&self, name: &str, attributes: &[Attribute]) -> Self {
        let (paths, is_certain) = attributes::paths(attributes);
        let folder = match paths.first() {
            Some(path) if is_certain => self.paths.join(path),
            _ => self.children.join(name),
        };
        Self { children: folder.clone(), paths: folder }
    }

    /// Returns the existing files that `mod name;` may refer to, each with its own folder.
    /// Conditional paths may yield more than one file.
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

/// Removes `folder/..` from a path, so that it can be used as the key of a changed file. A part
/// that leads through a symbolic link is kept, because its `..` leads elsewhere.
pub(super) fn without_detours(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        let goes_back = part == Component::ParentDir
            && matches!(straight.components().next_back(), Some(Component::Normal(_)))
            && !straight.is_symlink();
        if goes_back {
            straight.pop();
        } else if part != Component::CurDir {
            straight.push(part);
        }
    }
    straight
}

/// Returns the folders that a path passes through: those that it leaves by `..`, and the folder of
/// the file.
pub(super) fn folders_on_the_way(path: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut way = PathBuf::new();
    for part in path.parent().unwrap_or(Path::new("")).components() {
        if part == Component::ParentDir {
            folders.push(without_detours(&way));
        }
        way.push(part);
    }
    folders.push(without_detours(&way));
    folders.dedup();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_are_taken_out_of_a_path_and_known() {
        let path = Path::new("/app/src/net/../../shared/./x.rs");
        assert_eq!(without_detours(path), Path::new("/app/shared/x.rs"));
        let folders = ["/app/src/net", "/app/src", "/app/shared"].map(PathBuf::from);
        assert_eq!(folders_on_the_way(path), folders);
        assert_eq!(without_detours(Path::new("../x.rs")), Path::new("../x.rs"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_no_detour() {
        let folder = tempfile::tempdir().expect("a folder");
        let (real, link) = (folder.path().join("a/b"), folder.path().join("c"));
        std::fs::create_dir_all(&real).expect("made");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        let path = link.join("../x.rs");
        assert_eq!(without_detours(&path), path);
    }
}
