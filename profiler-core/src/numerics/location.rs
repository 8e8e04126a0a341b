//! Where in the program something was called.

use std::backtrace::Backtrace;
use std::path::Path;

/// Folders of packages that come from elsewhere.
const ELSEWHERE: [&str; 4] = ["/registry/src/", "/git/checkouts/", "/rustc/", "/lib/rustlib/src/"];

/// This file, in the folder that the packages of this workspace are in.
const OWN: &str = "profiler-core/src/numerics/location.rs";

/// Those of them that are no place in a user's program.
const PACKAGES: [&str; 8] = [
    "burn-plugin",
    "candle-plugin",
    "profiler-core",
    "profiler-events",
    "profiler-live",
    "profiler-runtime",
    "profiler-train",
    "tch-plugin",
];

/// The file and line that the program is at on the calling thread, below all libraries; `None` where it has no debug
/// information. *Cost*: the first time up to a second, since all debug information is read.
pub(super) fn of_program() -> Option<String> {
    let directory = std::env::current_dir().unwrap_or_default();
    find(&format!("{:#}", Backtrace::force_capture()), &directory)
}

/// The innermost place of the program in a backtrace, which has them below the names of functions.
fn find(backtrace: &str, directory: &Path) -> Option<String> {
    let places = backtrace.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
    // Without the column.
    let places = places.filter_map(|place| place.rsplit_once(':')).map(|(place, _)| place);
    let workspace = places.clone().find_map(|place| {
        let (file, _) = place.rsplit_once(':')?;
        file.strip_suffix(OWN)
    });
    let is_ours = |place: &str| {
        let within = workspace.and_then(|workspace| place.strip_prefix(workspace));
        let package = within.and_then(|within| within.split_once("/src/"));
        package.is_some_and(|(package, _)| PACKAGES.contains(&package))
    };
    let is_of_program = |place: &&str| {
        // Libraries of C may have debug information, too.
        let is_rust = place.rsplit_once(':').is_some_and(|(file, _)| file.ends_with(".rs"));
        is_rust && !ELSEWHERE.iter().any(|folder| place.contains(folder)) && !is_ours(place)
    };
    let place = places.clone().find(is_of_program)?;
    let shown = Path::new(place).strip_prefix(directory).unwrap_or(Path::new(place));
    Some(shown.display().to_string())
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
        // Of this very test nothing is a program's.
        assert_eq!(of_program(), None);
    }
}
