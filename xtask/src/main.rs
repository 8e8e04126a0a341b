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
Usage: cargo xtask <COMMAND>

  test [PART]...        run all tests, or those of the given parts; the first run builds burn and tch,
                        which takes minutes
  test --changed [SINCE]
                        run the parts that a change since SINCE can affect (a commit or branch)
                        [default: the last commit]
  miri                  run the core's unsafe code under Miri, as the last step of `test`; needs a
                        nightly toolchain with the components miri and rust-src
  check                 check formatting, lints, documentation, packages and public items, and other
                        platforms if a nightly toolchain has the component rust-src
  page                  bundle the script and the style sheet of the HTML page (needs node);
                        `check` reports an outdated bundle
  docs [--write]        build the guide and open it in a browser, or write its page of help texts
  public-api [--write]  compare the public items of the published crates with the lists in docs/api,
                        or write these lists
  run <PACKAGE> [CARGO OPTIONS] [-- ARGUMENTS]
                        build a program with optimisations and run it, with libtorch if it needs that
  libtorch [--tch VERSION]
                        print the variables with which plain cargo builds and runs programs that use
                        the workspace's tch or another version: eval \"$(cargo xtask libtorch)\"
  bench scopes [...]    cost of a scope, compared with other profilers (--json FILE, --check, --help)
  bench memory [...]    memory of the profilers after many calls
  bench tensor [...]    ten million ops in one recording: memory, table and trace
  bench allocations     cost of counting an allocation, compared with dhat
  bench sampler         cost of a stack sample, and slowdown of a sampled program
  bench torture [...]   stress test: millions of scopes, threads, panics, names, kills and forks, with
                        all counts checked (--scale X, --help)
  bench watched [...]   cost of live inspection for a step: its scopes, and the answering thread
                        (--scopes N, --step-ms N, --rounds N)
  bench verdicts [...]  false alarms in comparisons of equal runs (--rows N, --trainings N, --help)
  bench digits [--only NAME]... [--rounds N] [--clock cpu]
                        cost of profiling a training step with candle, tch, burn or Python's Lightning
                        [default: candle, tch and python]; PyTorch takes 3 GB to download and
                        6 GB of disk
  bench tch [...]       cost of recording libtorch's ops, and agreement of the numbers, compared with
                        torch.profiler in the same process (--json FILE, --help)
  bench analysis [...]  cost of analyses of a trace with a million slices, compared with
                        HolisticTraceAnalysis and Perfetto's trace_processor (--slices N, --rounds N,
                        --trace FILE, --json FILE, --without-hta, --without-trace-processor)
  bench fleet [...]     cost of queries over the traces of a hundred ranks with a million slices each
                        (--ranks N, --slices N, --question NAME, --memory MIB, --limit SECONDS,
                        --folder FOLDER, --json FILE); DataFusion takes minutes to build
  bench live [...]      cost of live inspection for a training with tch: MLPROF_LIVE=1, mlprof top and
                        mlprof record (--rounds N, --clock cpu, --json FILE)
  bench numerics [...]  cost of observing the numbers of each step with candle, tch or burn
                        (--only NAME, --rounds N, --clock cpu)
  bench build [--rounds N]
                        CPU time and crates that mlprof-candle adds to a release build of candle-nn,
                        with and without its default features; three full builds per round
  bench <NAME> --lto    one of the benchmarks from scopes to watched, built with link-time
                        optimisation
  gpu-check [...]       check kernels, times, traces and costs on an NVIDIA GPU, and print a table
                        (--only NAME, --python PATH, --save-fixtures FOLDER, --help). burn's CUDA
                        backend takes minutes to build, and downloads an LLVM; --without-burn omits
                        it. --candle builds candle's CUDA backend, which needs nvcc

Programs that use tch are built with the libtorch in LIBTORCH. Otherwise, with LIBTORCH_USE_PYTORCH
set, they use the libtorch of Python's PyTorch. Otherwise xtask builds a CPU-only libtorch once from
PyPI's torch (Linux; up to 0.9 GB to download, 0.5 GB of disk). It stores it in $MLPROF_CACHE
[default: the folder mlprof in $XDG_CACHE_HOME or ~/.cache].
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
