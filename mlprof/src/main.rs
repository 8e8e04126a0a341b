//! The `mlprof` command.

fn main() -> std::process::ExitCode {
    mlprof::command::main()
}
