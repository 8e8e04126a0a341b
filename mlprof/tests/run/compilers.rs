//! Tests unusual compiler names, link options and ways to pass arguments.

use super::builds::{Builds, line};
use super::shop::Finished;

const FUNCTION: &str = "app::in_the_library";

fn output(command: &mut std::process::Command) -> Finished {
    command.output().expect("it runs").into()
}

/// Returns the output of the toolchain's rustc.
fn rustc(arguments: &[&str]) -> String {
    let output = std::process::Command::new("rustc").args(arguments).output().expect("it runs");
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

#[test]
fn a_compiler_of_any_name_and_of_too_many_arguments_is_wrapped() {
    let builds = Builds::new();
    let log = builds.0.path("log");
    let real = format!("{}/bin/rustc", rustc(&["--print", "sysroot"]));
    builds.write_script(
        "my-compiler",
        &format!("echo \"$1\" >> {}; exec {real} \"$@\"", log.display()),
    );
    let mut manifest = std::fs::read_to_string(builds.0.path("Cargo.toml")).expect("a manifest");
    // The names exceed the 128 KiB that are available to arguments with a stack of half a MiB.
    let names: Vec<_> = (0..1_500).map(|number| format!("{}{number}", "x".repeat(100))).collect();
    let features = names.iter().map(|name| format!("{name} = []\n")).collect::<String>();
    manifest += &format!("[features]\ndefault = {names:?}\n{features}");
    builds.write("Cargo.toml", &manifest);
    builds.write_script("run.sh", "ulimit -s 512; exec cargo run");
    let compiler = builds.0.path("my-compiler");
    let run = output(builds.mlprof_command("./run.sh").env("RUSTC", &compiler));
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "24\n"), "{run:?}");
    assert_eq!(builds.calls(FUNCTION), 10, "{run:?}");
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.lines().any(|line| line.starts_with('@')), "{log}");
}

#[test]
fn examples_in_documentation_are_linked_in_any_folder_and_with_the_user_s_flags() {
    let builds = Builds::new();
    let spaced = builds.0.path("my \"own\" folder");
    std::fs::create_dir_all(&spaced).expect("made");
    for name in ["Cargo.toml", "src", "benches"] {
        std::fs::rename(builds.0.path(name), spaced.join(name)).expect("moved");
    }
    let test = |flags: Option<(&str, &str)>| {
        let mut command = builds.mlprof_command("cargo test --doc");
        command.arg("--manifest-path").arg(spaced.join("Cargo.toml"));
        let run = output(command.env_remove("CARGO_ENCODED_RUSTDOCFLAGS").envs(flags));
        assert_eq!((run.code, builds.calls(FUNCTION)), (Some(0), 1), "{flags:?}: {run:?}");
    };
    test(Some(("RUSTDOCFLAGS", "--cfg with_flag")));
    test(Some(("CARGO_ENCODED_RUSTDOCFLAGS", "--cfg\u{1f}with_flag")));
    let config = "build.rustdocflags = [\"--cfg\", \"with_flag\"]\n";
    builds.write(".cargo/config.toml", config);
    test(None);
}

#[test]
fn a_static_program_runs_without_hooks_and_the_reason_is_said() {
    let builds = Builds::new();
    let version = rustc(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let flags = "-C target-feature=+crt-static";
    let command = format!("cargo run --target {host}");
    let words: Vec<_> = command.split(' ').skip(1).collect();
    let plain = output(builds.command("cargo", &words).env("RUSTFLAGS", flags));
    let words = super::shop::arguments("--explain --functions app::**", &command);
    let mut mlprof = builds.command(super::shop::MLPROF, &words);
    let run = output(mlprof.env("RUSTFLAGS", flags));
    assert_eq!((run.code, &run.stdout), (plain.code, &plain.stdout), "{run:?}");
    let reason = "it is linked statically (crt-static)";
    let said = run.stderr.lines().filter(|line| line.contains(reason)).collect::<Vec<_>>();
    assert!(
        said.iter().any(|line| line.starts_with("mlprof: app and all other crates")),
        "{run:?}"
    );
    assert!(
        said.iter().any(|line| line.starts_with("mlprof:   has no hooks:")),
        "explained: {run:?}"
    );
    assert!(!run.stderr.contains("matches no function"), "{run:?}");
    line(&run, "mlprof: no process of this command was measured: these packages have no hooks:");
    // The next run compiles nothing, and it prints the same reason.
    let run = output(&mut mlprof);
    assert!(!run.stderr.contains("Compiling") && run.stderr.contains(reason), "{run:?}");
}

#[test]
fn benchmarks_with_a_main_of_their_own_are_programs() {
    let builds = Builds::new();
    let run = builds.mlprof("cargo test --bench timed");
    assert_eq!((run.code, builds.calls(FUNCTION)), (Some(0), 1), "{run:?}");
}
