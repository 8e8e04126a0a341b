//! `cargo xtask …`: tasks for developers and CI. It has almost no dependencies, so that it builds
//! in seconds.

mod bench;
mod check;
mod disk_space;
mod docs;
mod features;
mod folder;
mod gpu_check;
mod libtorch;
mod linters;
mod loom_compiler;
mod metadata;
mod miri;
mod msrv;
mod newest;
mod nightly;
mod npm;
mod packages;
mod page;
mod platforms;
mod public_api;
mod python;
mod run;
mod steps;
mod system;
mod test;
mod trace_processor;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <command>

  test [PART]...        run every test there is, or those of these parts; a first run builds burn and
                        tch, which takes minutes
  test --changed [SINCE]
                        run the parts that a change since SINCE (a commit or branch, by default the
                        last commit) can reach
  miri                  what test does last: the core's unsafe code under Miri, where there is a
                        nightly toolchain with the components miri and rust-src
  check                 formatting, lints, documentation, packages, public items, and whether other
                        platforms compile, where there is a nightly toolchain with the component
                        rust-src
  page                  bundle the script and the style sheet of the HTML page anew (needs node); check says
                        whether that has been done
  docs [--write]        build the guide as a book and open it in a browser, or write its page of help texts anew
  public-api [--write]  compare the public items of the published crates with the lists in docs/api,
                        or write these anew
  run <package> [cargo's options] [-- arguments]
                        build and run a program, optimised, such as tch-digits, with libtorch if
                        it needs that
  libtorch [--tch 0.24] print what to export so that plain cargo builds and runs programs with the
                        workspace's tch, or with another:
                        eval \"$(cargo xtask libtorch)\"
  bench scopes [...]    what one scope costs, beside peers (--json FILE, --check, --help)
  bench memory [...]    what the profilers keep in memory after many calls
  bench tensor [...]    ten million ops in one window: memory, the table over them, their trace
  bench allocations     what counting an allocation costs, beside dhat
  bench sampler         what one stack sample costs, and a program that is sampled
  bench torture [...]   hard treatment: millions of scopes, threads, panics, names, kills and forks, with
                        every count checked (--scale X, --help)
  bench watched [...]   what it costs a step to be watched, by account: its scopes, and the thread that answers
                        (--scopes N, --step-ms N, --rounds N)
  bench verdicts [...]  how often comparisons of equal runs say that something got slower (--rows N, --trainings N,
                        --help)
  bench digits [--only NAME]... [--rounds N] [--clock cpu]
                        what profiling costs a training step with candle, tch and Python's Lightning
                        (all of them, or NAME: candle, tch, python, burn); Python's torch is 3 GB
                        to download, 6 GB to keep
  bench tch [...]       what recording libtorch's ops costs, beside torch's own profiler in the same
                        process, and how their numbers agree (--json FILE, --help)
  bench analysis [...]  what questions to a trace of a million slices cost, beside HolisticTraceAnalysis
                        and Perfetto's trace_processor (--slices N, --rounds N, --trace FILE,
                        --json FILE, --without-hta, --without-trace-processor)
  bench fleet [...]     what questions to the traces of a hundred ranks of a million slices cost, asked of all at once
                        (--ranks N, --slices N, --question NAME, --memory MIB, --limit SECONDS, --folder FOLDER,
                        --json FILE); DataFusion takes minutes to build
  bench live [...]      what it costs a training with tch to be watched: with MLPROF_LIVE=1, by mlprof top, by
                        mlprof record, beside one that nobody watches (--rounds N, --clock cpu, --json FILE)
  bench numerics [...]  what looking at the numbers of each step costs with candle and tch (--only NAME, burn too; --rounds N,
                        --clock cpu)
  bench build [--rounds N]
                        what mlprof-candle adds to a cold release build of candle-nn: CPU time and crates, with its
                        default features and without; three builds from nothing for each round
  bench <name> --lto    one of those from scopes to watched, built with link-time optimisation
  gpu-check [...]       on a machine with an NVIDIA GPU: check kernels, times, traces and costs, and
                        end with one table (--only NAME, --python PATH, --save-fixtures FOLDER,
                        --help). burn's CUDA backend takes minutes to build, and downloads an LLVM;
                        --without-burn leaves it out, --candle builds candle's, which needs nvcc

libtorch is the one that LIBTORCH names, else Python's PyTorch if LIBTORCH_USE_PYTORCH is set, else
a CPU-only one that is made of PyPI's torch, once (Linux; up to 0.9 GB to download, 0.5 GB to keep).
It is kept in $MLPROF_CACHE, by default the folder mlprof of $XDG_CACHE_HOME or ~/.cache.
";

fn usage() -> String {
    format!("{USAGE}\nParts of the tests:\n{}", test::usage())
}

fn main() -> ExitCode {
    if loom_compiler::is_called() {
        return loom_compiler::compile();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["test", parts @ ..] => test::run(parts),
        ["check"] => check::run(),
        ["miri"] => miri::run(),
        ["page"] => page::run(),
        ["docs"] => docs::open(),
        ["docs", "--write"] => docs::write(),
        ["public-api"] => public_api::run(false),
        ["public-api", "--write"] => public_api::run(true),
        ["libtorch"] => libtorch::print(None),
        ["libtorch", "--tch", version] => libtorch::print(Some(version)),
        ["run", package, rest @ ..] => run::run(package, rest),
        ["bench", name, rest @ ..] if bench::PROGRAMS.contains(name) => bench::run(name, rest),
        ["gpu-check", rest @ ..] => return gpu_check::run(rest),
        ["help" | "--help" | "-h"] => {
            print!("{}", usage());
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{}", usage());
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("\nerror: {message}");
            ExitCode::FAILURE
        }
    }
}
