//! System packages that tests need. On Debian-based systems they are installed if permitted.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A required program.
pub struct Requirement {
    pub name: &'static str,
    is_present: fn() -> bool,
    debian_packages: &'static [&'static str],
    /// Reason for the requirement.
    reason: &'static str,
}

/// Python, which reads mlprof's output and downloads libtorch.
pub const PYTHON: Requirement = Requirement {
    name: "python3 (3.10 or later, with its venv module)",
    is_present: || {
        let probe = "import sys, venv, ensurepip; assert sys.version_info >= (3, 10)";
        succeeds(Command::new("python3").args(["-c", probe]))
    },
    debian_packages: &["python3", "python3-venv"],
    reason: "tests read mlprof's files with it, and xtask fetches libtorch with it",
};

/// A C++ compiler for the hook into libtorch.
pub const CPP_COMPILER: Requirement = Requirement {
    name: "a C++ compiler (c++)",
    is_present: || succeeds(Command::new("c++").arg("--version")),
    debian_packages: &["g++"],
    reason: "the hooks into libtorch are written in C++",
};

/// A software GPU, which runs burn's kernels on machines without a GPU.
pub const SOFTWARE_GPU: Requirement = Requirement {
    name: "Vulkan with a driver, such as Mesa's lavapipe",
    is_present: || has_vulkan_loader() && has_vulkan_driver(),
    debian_packages: &["mesa-vulkan-drivers", "libvulkan1"],
    reason: "tests run burn's kernels through WebGPU",
};

/// Node, which controls the browser.
pub const NODE: Requirement = Requirement {
    name: "node (18 or later) and npm",
    is_present: || {
        let probe = "process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)";
        succeeds(Command::new("node").args(["-e", probe]))
            && succeeds(Command::new("npm").arg("-v"))
    },
    debian_packages: &["nodejs", "npm"],
    reason: "tests control the browser that opens the HTML page with it",
};

/// Prometheus, which scrapes metrics from trainings.
pub const PROMETHEUS: Requirement = Requirement {
    name: "prometheus and promtool",
    is_present: || is_there("prometheus") && is_there("promtool"),
    debian_packages: &["prometheus"],
    reason: "tests read the metrics with it",
};

/// A browser, which shows the report page.
pub const BROWSER: Requirement = Requirement {
    name: "Chromium (or Chrome)",
    is_present: || {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        names.iter().any(|name| Path::new("/usr/bin").join(name).exists())
            || std::env::var_os("MLPROF_TEST_BROWSER").is_some()
    },
    debian_packages: &["chromium"],
    reason: "tests open the HTML page of reports in it",
};

/// Java, which runs Spark.
pub const JAVA: Requirement = Requirement {
    name: "java (17 or later)",
    is_present: || succeeds(Command::new("java").arg("-version")),
    debian_packages: &["openjdk-17-jre-headless"],
    reason: "Spark needs it",
};

/// QEMU, which emulates another processor.
pub const QEMU: Requirement = Requirement {
    name: "qemu-aarch64",
    is_present: || is_there("qemu-aarch64"),
    debian_packages: &["qemu-user"],
    reason: "it runs the tests for aarch64",
};

/// A linker for AArch64. The package includes the C library.
pub const AARCH64_COMPILER: Requirement = Requirement {
    name: "aarch64-linux-gnu-gcc",
    is_present: || is_there("aarch64-linux-gnu-gcc"),
    debian_packages: &["gcc-aarch64-linux-gnu"],
    reason: "it links the tests for aarch64",
};

/// Wine, which runs Windows programs.
pub const WINE: Requirement = Requirement {
    name: "wine (64-bit)",
    is_present: || wine().is_some(),
    debian_packages: &["wine64"],
    reason: "it runs the tests for Windows",
};

/// A linker for Windows. The package includes the Windows libraries.
pub const WINDOWS_COMPILER: Requirement = Requirement {
    name: "x86_64-w64-mingw32-gcc",
    is_present: || is_there("x86_64-w64-mingw32-gcc"),
    debian_packages: &["gcc-mingw-w64-x86-64-win32"],
    reason: "it links the tests for Windows",
};

/// Returns the wine program. Debian's 64-bit package installs it outside the search path.
pub fn wine() -> Option<&'static str> {
    let hidden = "/usr/lib/wine/wine64";
    let in_path = ["wine64", "wine"].into_iter().find(|program| is_there(program));
    in_path.or_else(|| Path::new(hidden).is_file().then_some(hidden))
}

/// Returns `true` if the program is in the search path.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

impl Requirement {
    /// Returns `true` if the requirement is satisfied.
    pub fn is_there(&self) -> bool {
        (self.is_present)()
    }

    /// Installs the requirement if it is missing.
    pub fn require(&self) -> Result<(), String> {
        let Self { name, is_present, debian_packages, reason } = self;
        if is_present() {
            return Ok(());
        }
        if Path::new("/etc/debian_version").exists() && is_root() {
            eprintln!("installing {name}, which is missing");
            apt_get(&["update"])?;
            let install = ["install", "--yes", "--no-install-recommends"];
            apt_get(&[&install[..], debian_packages].concat())?;
        }
        if is_present() {
            return Ok(());
        }
        let packages = debian_packages.join(" ");
        Err(format!("{name} is missing: {reason}. On Debian or Ubuntu: apt-get install {packages}"))
    }
}

fn has_vulkan_loader() -> bool {
    let folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib"].map(PathBuf::from);
    let inside = folders.iter().flat_map(|folder| entries(folder));
    folders.iter().cloned().chain(inside).any(|folder| folder.join("libvulkan.so.1").exists())
}

fn has_vulkan_driver() -> bool {
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
    let folders = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    named.iter().any(|name| std::env::var_os(name).is_some())
        || folders.iter().any(|folder| !entries(Path::new(folder)).is_empty())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    // Standard output is reserved for the requested result.
    command.stdout(io::stderr());
    let status = command.status().map_err(|error| format!("cannot run apt-get: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("apt-get {} failed ({status})", arguments.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_where_the_system_looks() {
        assert!(is_there("cargo") && !is_there("no-such-program-anywhere"));
    }

    #[test]
    fn present_programs_are_not_installed_again() {
        let there = Requirement {
            name: "something",
            is_present: || true,
            debian_packages: &["no-such-package"],
            reason: "of this test",
        };
        assert_eq!(there.require(), Ok(()));
    }
}
