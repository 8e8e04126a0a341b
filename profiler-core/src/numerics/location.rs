//! Where in the program something was called.

use std::backtrace::Backtrace;
use std::path::Path;

/// Folders of packages that come from elsewhere.
const ELSEWHERE: [&str; 4] = ["/registry/src/", "/git/checkouts/", "/rustc/", "/lib/rustlib/src/"];

/// The folders of our packages, which are no place in a user's program: in this workspace, and by
/// the names of the packages where they are vendored.
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

/// The file and line that the program is at on the calling thread, below all libraries; `None` where it has no debug
/// information, or there is not enough memory to read it. *Cost*: the first time up to a second,
/// since all debug information is read.
pub(super) fn of_program() -> Option<String> {
    if !has_room() {
        return None;
    }
    let directory = std::env::current_dir().unwrap_or_default();
    find(&format!("{:#}", Backtrace::force_capture()), &directory)
}

/// Whether the address space has room for the debug information of the program and its libraries.
/// Without it (`ulimit -v`) the standard library, which reads all of it, would end the program or
/// wait for a lock that its own thread holds.
#[cfg(unix)]
fn has_room() -> bool {
    const LIBRARIES: usize = 1 << 30;
    let program = std::env::current_exe().and_then(|path| path.metadata());
    let program = program.map_or(0, |it| usize::try_from(it.len()).unwrap_or(usize::MAX));
    // Mapped once, and unpacked where it is compressed.
    let bytes = program.saturating_mul(4).saturating_add(LIBRARIES);
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: asks for new pages without access, which take addresses and no memory.
    let pages = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, kind, -1, 0) };
    if pages == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: mapped above with this length, and nobody else knows of it.
    unsafe { libc::munmap(pages, bytes) };
    true
}

#[cfg(not(unix))]
fn has_room() -> bool {
    true
}

/// The innermost place of the program in a backtrace, which has them below the names of functions.
fn find(backtrace: &str, directory: &Path) -> Option<String> {
    let places = backtrace.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
    // Without the column.
    let mut places = places.filter_map(|place| place.rsplit_once(':')).map(|(place, _)| place);
    let place = places.find(|place| {
        let file = place.rsplit_once(':').map_or(*place, |(file, _)| file);
        // Libraries of C may have debug information, too.
        file.ends_with(".rs")
            && !ELSEWHERE.iter().any(|folder| file.contains(folder))
            && !is_ours(file)
    })?;
    let shown = Path::new(place).strip_prefix(directory).unwrap_or(Path::new(place));
    Some(shown.display().to_string())
}

/// Whether a file is a source of one of our packages: known by its path alone, since a generic or
/// inlined function of ours is compiled into the program, which may have debug information where
/// our packages have none.
fn is_ours(file: &str) -> bool {
    let folders: Vec<&str> = file.split('/').collect();
    folders.windows(2).any(|pair| {
        // With its version, where packages are vendored.
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
        // A test of ours, and an example, are programs.
        let test =
            "  7: 0x8 - test\n             at /home/x/mlprof/tch-plugin/tests/numerics.rs:3:5\n";
        let expected = Some("/home/x/mlprof/tch-plugin/tests/numerics.rs:3");
        assert_eq!(find(&format!("{ours}{test}"), "/tmp").as_deref(), expected);
        assert_eq!(find("  0: 0x1 - net::main\n", "/tmp"), None, "no debug information");
        // What is compiled into the program has debug information, where our packages have none.
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
        // Of this very test nothing is a program's.
        assert_eq!(of_program(), None);
    }
}
