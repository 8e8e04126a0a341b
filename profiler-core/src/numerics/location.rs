//! Source location of the program's code that led to a call.

use std::backtrace::Backtrace;
use std::path::Path;

/// Path parts of external packages.
const ELSEWHERE: [&str; 4] = ["/registry/src/", "/git/checkouts/", "/rustc/", "/lib/rustlib/src/"];

/// Directories of mlprof's packages, which are never reported as the user's code. The list contains
/// the directories of this workspace, and the package names for vendored copies.
const PACKAGES: [&str; 14] = [
    "burn-plugin",
    "candle-plugin",
    "mlprof-burn",
    "mlprof-candle",
    "mlprof-core",
    "mlprof-cuda",
    "mlprof-events",
    "mlprof-live",
    "mlprof-macros",
    "mlprof-runtime",
    "mlprof-tch",
    "mlprof-train",
    "profiler-core",
    "tch-plugin",
];

/// Returns the file and line of the innermost program code on the calling thread's stack, outside
/// of libraries. Returns `None` without debug information, or if there is not enough memory to read
/// it. *Cost*: up to a second for the first call, because it reads all debug information.
pub(super) fn of_program() -> Option<String> {
    if !has_room() {
        return None;
    }
    let directory = std::env::current_dir().unwrap_or_default();
    find(&format!("{:#}", Backtrace::force_capture()), &directory)
}

/// Returns `true` if the address space has room for the debug information of the program and its
/// libraries. The standard library reads all of it. With too little room (`ulimit -v`), it would
/// end the program or deadlock on its own lock.
#[cfg(unix)]
fn has_room() -> bool {
    const LIBRARIES: usize = 1 << 30;
    let program = std::env::current_exe().and_then(|path| path.metadata());
    let program = program.map_or(0, |it| usize::try_from(it.len()).unwrap_or(usize::MAX));
    // The estimate covers one mapping of the file, plus its unpacked debug sections.
    let bytes = program.saturating_mul(4).saturating_add(LIBRARIES);
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the call maps new anonymous pages at an address of the kernel's choice, so no
    // existing mapping changes. `PROT_NONE` pages use address space but no memory.
    let pages = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, kind, -1, 0) };
    if pages == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the pages were mapped above with this length, and no other code has their address.
    unsafe { libc::munmap(pages, bytes) };
    true
}

#[cfg(not(unix))]
fn has_room() -> bool {
    true
}

/// Returns the innermost program location in a backtrace, where locations follow function names.
fn find(backtrace: &str, directory: &Path) -> Option<String> {
    let places = backtrace.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
    // The location ends with a column number, which is removed.
    let mut places = places.filter_map(|place| place.rsplit_once(':')).map(|(place, _)| place);
    let place = places.find(|place| {
        let file = place.rsplit_once(':').map_or(*place, |(file, _)| file);
        // Only Rust files count, because C libraries may also have debug information.
        file.ends_with(".rs")
            && !ELSEWHERE.iter().any(|folder| file.contains(folder))
            && !is_ours(file)
    })?;
    let shown = Path::new(place).strip_prefix(directory).unwrap_or(Path::new(place));
    Some(shown.display().to_string())
}

/// Returns `true` if a file belongs to one of mlprof's packages, judging by its path alone. Debug
/// information does not show this. Generic and inlined mlprof functions are compiled into the
/// program, which may have debug information even if mlprof's packages do not.
fn is_ours(file: &str) -> bool {
    let folders: Vec<&str> = file.split('/').collect();
    folders.windows(2).any(|pair| {
        // The directory name of a vendored package may include its version.
        let is_package = |package: &&str| {
            let version = pair[0].strip_prefix(*package);
            version.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        pair[1] == "src" && PACKAGES.iter().any(is_package)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_innermost_place_of_the_program() {
        let ours = "  0: 0x1 - of_program\n             at /home/x/mlprof/profiler-core/src/numerics/location.rs:9:5\n  \
                    1: 0x2 - forward\n             at /home/x/mlprof/tch-plugin/src/module.rs:90:9\n  2: 0x3 - at::native::log\n  \
                    3: 0x4 - <alloc::boxed::Box<F> as core::ops::FnOnce<A>>::call_once\n             \
                    at /rustc/abc/library/alloc/src/boxed.rs:1:1\n  4: 0x5 - tch::nn::func::forward\n             \
                    at /root/.cargo/registry/src/index/tch-0.22.0/src/nn/func.rs:3:4\n";
        let programs = "  5: 0x6 - forward\n             at /home/x/net/src/net.rs:42:13\n  6: 0x7 - net::main\n             \
                        at /home/x/net/src/main.rs:7:1\n";
        let find = |text: &str, directory: &str| find(text, Path::new(directory));
        let all = format!("{ours}{programs}");
        assert_eq!(find(&all, "/home/x/net").as_deref(), Some("src/net.rs:42"));
        assert_eq!(find(&all, "/tmp").as_deref(), Some("/home/x/net/src/net.rs:42"));
        let threads = "  5: 0x6 - start_thread\n             at ./nptl/pthread_create.c:442:8\n";
        assert_eq!(find(&format!("{ours}{threads}"), "/tmp"), None, "there is nothing else");
        // Tests and examples of mlprof count as programs.
        let test =
            "  7: 0x8 - test\n             at /home/x/mlprof/tch-plugin/tests/numerics.rs:3:5\n";
        let expected = Some("/home/x/mlprof/tch-plugin/tests/numerics.rs:3");
        assert_eq!(find(&format!("{ours}{test}"), "/tmp").as_deref(), expected);
        assert_eq!(find("  0: 0x1 - net::main\n", "/tmp"), None, "no debug information");
        // Inlined mlprof code has the debug information of the program, even if mlprof's packages
        // have none.
        for folder in ["/home/x/mlprof/", "", "./", "/home/x/net/vendor/"] {
            for file in
                ["candle-plugin/src/optimizer.rs", "mlprof-candle-0.1.0/src/numerics/mod.rs"]
            {
                let inlined = format!("  0: 0x1 - step\n             at {folder}{file}:254:20\n");
                assert_eq!(find(&inlined, "/tmp"), None, "{folder}{file}");
                let all = format!("{inlined}{programs}");
                assert_eq!(find(&all, "/home/x/net").as_deref(), Some("src/net.rs:42"));
            }
        }
        // This test itself belongs to mlprof, so its stack contains no program code.
        assert_eq!(of_program(), None);
    }
}
