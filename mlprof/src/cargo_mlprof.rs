//! The `mlprof` command under the name by which `cargo mlprof` finds it.

fn main() -> std::process::ExitCode {
    mlprof::command::main()
}
