//! The `mlprof` command.

fn main() -> std::process::ExitCode {
    profiler_cli::command::main()
}
