//! Search for libcupti. The places are searched in this order:
//!
//! 1. The library that is already loaded, because a process can only use one. For example, libtorch
//!    brings one for Kineto.
//! 2. `MLPROF_CUPTI_LIBRARY`, a file or a folder.
//! 3. The search path of the dynamic loader (`LD_LIBRARY_PATH`, the run path of the program, the
//!    system's folders).
//! 4. The CUDA toolkit: `CUDA_HOME`, `CUDA_PATH`, `CUDA_ROOT`, `/usr/local/cuda`, `/opt/cuda`.
//! 5. Python packages: `nvidia/cuda_cupti/lib` (CUDA 12) and `nvidia/cu13/lib` (CUDA 13) in the
//!    site folders of the active environment, of the user, and of the system.
//!
//! Among several versions in one place, the newest version supported by the driver comes first.

use mlprof_events::environment::variables;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Environment variable with a file or a folder for libcupti.
pub(crate) const VARIABLE: &str = "MLPROF_CUPTI_LIBRARY";

/// Inputs of the search, except for the library that is already loaded.
#[derive(Default)]
pub(crate) struct Surroundings {
    /// Environment variables.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Major CUDA version that the driver supports, if it is known.
    pub(crate) driver: Option<u32>,
    /// Root folder, which is `/` except in tests.
    pub(crate) root: PathBuf,
}

/// Major CUDA versions that are searched for, newest first.
const VERSIONS: [u32; 2] = [13, 12];

impl Surroundings {
    /// Returns the inputs of this process.
    pub(crate) fn of_process(driver: Option<u32>) -> Self {
        Self { variables: variables(), driver, root: PathBuf::from("/") }
    }

    fn variable(&self, name: &str) -> Option<&Path> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| Path::new(value)).filter(|value| !value.as_os_str().is_empty())
    }

    fn names(&self) -> Vec<String> {
        let fits = |version: &u32| self.driver.is_none_or(|driver| *version <= driver);
        let known = VERSIONS.iter().filter(|version| fits(version));
        let too_new = VERSIONS.iter().filter(|version| !fits(version));
        known
            .map(|version| format!("libcupti.so.{version}"))
            .chain(["libcupti.so".to_owned()])
            // A library that is too new still leads to a clear error message about versions.
            .chain(too_new.map(|version| format!("libcupti.so.{version}")))
            .collect()
    }

    /// Returns the paths that the user requested. In this case, no others are tried.
    pub(crate) fn asked_for(&self) -> Option<Vec<PathBuf>> {
        let path = self.variable(VARIABLE)?;
        Some(match path.is_dir() {
            true => self.names().iter().map(|name| path.join(name)).collect(),
            false => vec![path.to_owned()],
        })
    }

    /// Returns all candidates in order. The loader searches for names without a folder.
    pub(crate) fn candidates(&self) -> Vec<PathBuf> {
        let names = self.names();
        let in_folders = self.toolkits().into_iter().chain(self.packages()).flat_map(|folder| {
            let names = names.iter().map(move |name| folder.join(name));
            names.filter(|path| path.exists()).collect::<Vec<_>>()
        });
        let by_loader = names.iter().map(PathBuf::from);
        by_loader.chain(in_folders).collect()
    }

    fn toolkits(&self) -> Vec<PathBuf> {
        let named = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"];
        let named = named.iter().filter_map(|name| self.variable(name)).map(Path::to_owned);
        let usual = ["usr/local/cuda", "opt/cuda"].map(|folder| self.root.join(folder));
        let target = format!("targets/{}-linux/lib", std::env::consts::ARCH);
        let inside = ["extras/CUPTI/lib64", "lib64", "lib", target.as_str()];
        let folders = named.chain(usual);
        folders.flat_map(|folder| inside.map(|part| folder.join(part))).collect()
    }

    /// Returns the package folders of both layouts in all Python site folders.
    fn packages(&self) -> Vec<PathBuf> {
        let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"];
        let mut prefixes: Vec<PathBuf> = environments
            .iter()
            .filter_map(|name| self.variable(name))
            .map(Path::to_owned)
            .collect();
        prefixes.extend(self.variable("HOME").map(|home| home.join(".local")));
        prefixes.extend(["usr/local", "usr"].map(|prefix| self.root.join(prefix)));
        let path = self.variable("PYTHONPATH").map(|path| std::env::split_paths(path).collect());
        let mut sites: Vec<PathBuf> = path.unwrap_or_default();
        for prefix in prefixes {
            for python in pythons(&prefix.join("lib")) {
                sites.extend(["site-packages", "dist-packages"].map(|part| python.join(part)));
            }
        }
        let layouts = ["nvidia/cu13/lib", "nvidia/cuda_cupti/lib"];
        sites.iter().flat_map(|site| layouts.map(|layout| site.join(layout))).collect()
    }
}

/// Returns the folders `python3`, `python3.11`, … in a library folder.
fn pythons(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_python = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("python3"))
    };
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_python).collect();
    found.sort();
    found
}

/// Returns the path of the libcupti that this process has already loaded.
pub(crate) fn loaded() -> Option<PathBuf> {
    // On systems without this file, the loaded libraries are unknown.
    in_maps(&std::fs::read_to_string("/proc/self/maps").ok()?)
}

fn in_maps(maps: &str) -> Option<PathBuf> {
    let paths =
        maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    let is_it = |path: &&Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("libcupti.so") || name.starts_with("libcupti-"))
    };
    { paths }.find(is_it).map(Path::to_owned)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn surroundings(root: &Path, variables: &[(&str, &Path)]) -> Surroundings {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Surroundings { variables: variables.collect(), driver: None, root: root.to_owned() }
    }

    fn file(path: PathBuf) -> PathBuf {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        std::fs::write(&path, "").expect("it is written");
        path
    }

    #[test]
    fn the_loader_then_the_toolkit_then_both_layouts_of_pythons_packages() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let toolkit = file(root.join("home/cuda/extras/CUPTI/lib64/libcupti.so.12"));
        let usual = file(root.join("usr/local/cuda/lib64/libcupti.so"));
        let site = "env/lib/python3.11/site-packages/nvidia";
        let new = file(root.join(site).join("cu13/lib/libcupti.so.13"));
        let old = file(root.join(site).join("cuda_cupti/lib/libcupti.so.12"));
        let system = "usr/lib/python3/dist-packages/nvidia/cuda_cupti/lib/libcupti.so.12";
        let system = file(root.join(system));
        file(root.join(site).join("cublas/lib/libcublas.so.12"));
        let (home, environment) = (root.join("home/cuda"), root.join("env"));
        let known = surroundings(root, &[("CUDA_HOME", &home), ("VIRTUAL_ENV", &environment)]);
        let by_loader = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"].map(PathBuf::from);
        let expected: Vec<_> =
            by_loader.into_iter().chain([toolkit, usual, new, old, system]).collect();
        assert_eq!(known.candidates(), expected);
        assert_eq!(known.asked_for(), None);
    }

    #[test]
    fn libraries_unknown_to_the_driver_come_last() {
        let known = Surroundings { driver: Some(12), ..Surroundings::default() };
        assert_eq!(known.names(), ["libcupti.so.12", "libcupti.so", "libcupti.so.13"]);
        let known = Surroundings { driver: Some(14), ..Surroundings::default() };
        assert_eq!(known.names(), ["libcupti.so.13", "libcupti.so.12", "libcupti.so"]);
    }

    #[test]
    fn a_file_or_a_folder_can_be_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let known = surroundings(root, &[(VARIABLE, root)]);
        let names = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];
        assert_eq!(known.asked_for(), Some(names.map(|name| root.join(name)).to_vec()));
        let path = root.join("my-cupti.so");
        assert_eq!(surroundings(root, &[(VARIABLE, &path)]).asked_for(), Some(vec![path]));
        assert_eq!(surroundings(root, &[(VARIABLE, Path::new(""))]).asked_for(), None);
    }

    #[test]
    fn loaded_libraries_are_found_by_file_name() {
        let maps = "7f0 r-xp 00 08:01 1  /lib/libc.so.6\n\
                    7f1 r-xp 00 08:01 2  /site packages/nvidia/cuda_cupti/lib/libcupti.so.12\n\
                    7f2 rw-p 00 00:00 0\n";
        let found = Path::new("/site packages/nvidia/cuda_cupti/lib/libcupti.so.12");
        assert_eq!(in_maps(maps).as_deref(), Some(found));
        assert_eq!(in_maps("7f0 r-xp 00 08:01 1 /lib/libcupti_other.so\n"), None);
    }
}
