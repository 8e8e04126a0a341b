//! Tests that only the build folder of the run contains hooks.

use super::builds::{Builds, line};
use super::shop::{MLPROF, arguments};

const FUNCTION: &str = "app::in_the_library";

#[test]
fn intermediate_artifacts_are_apart_from_those_of_the_user() {
    let builds = Builds::new();
    let config = "[build]\nbuild-dir = \"{workspace-root}/between\"\n";
    builds.write(".cargo/config.toml", config);
    let build = || assert_eq!(builds.run("cargo", &["build"]).code, Some(0));
    build();
    for command in [
        "cargo run",
        "cargo run --config build.build-dir=\"other\" --config build.target-dir=\"other\"",
        "cargo --config build.build-dir=\"other\" run --target-dir other",
        "sh -c cargo$IFS\"run\"",
    ] {
        let run = builds.mlprof(command);
        assert_eq!(run.code, Some(0), "{command}: {run:?}");
        assert_eq!(builds.calls(FUNCTION), 10, "{command}: {run:?}");
    }
    build();
    assert!(!builds.has_hooks("target/debug/app"));
    let built = builds.run("cargo", &["build", "--config", "build.build-dir=\"other\""]);
    assert_eq!(built.code, Some(0), "{built:?}");
    assert!(!builds.has_hooks("target/debug/app"));
}

#[test]
fn other_hooks_are_built_in_the_newer_layout_of_cargo_too() {
    let builds = Builds::new();
    let run = |functions: &str| {
        let words = ["run", "--quiet", "--functions", functions, "--", "cargo", "run"];
        let mut command = builds.command(MLPROF, &words);
        command.arg("-Zbuild-dir-new-layout").env("RUSTC_BOOTSTRAP", "1");
        let run: super::shop::Finished = command.output().expect("it runs").into();
        assert_eq!(run.code, Some(0), "{run:?}");
        let calls = builds.0.calls();
        builds.0.forget_results();
        (calls.get(FUNCTION).copied(), calls.contains_key("app::main"))
    };
    assert_eq!(run("app::main"), (None, true));
    assert_eq!(run("app::in_the_library"), (Some(10), false));
    assert_eq!(run("app::**"), (Some(10), true));
}

#[test]
fn builds_in_other_folders_have_no_hooks_and_a_warning() {
    let builds = Builds::new();
    builds.write_script("build.sh", "cargo build --target-dir out && out/debug/app");
    let run = builds.mlprof("./build.sh");
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "24\n"), "{run:?}");
    assert!(!builds.has_hooks("out/debug/app"));
    let said = line(&run, "mlprof: warning: crates built in ");
    assert!(
        said.contains("out/debug have no hooks") && said.contains("target/mlprof/functions"),
        "{run:?}"
    );
    line(&run, "mlprof: no process of this command was measured");
}

#[test]
fn of_a_script_that_runs_cargo_s_usual_program_it_is_said_which_one_to_run() {
    let builds = Builds::new();
    builds.write_script("usual.sh", "cargo build && target/debug/app");
    let name = "$CARGO_TARGET_DIR/debug/app\" instead of ";
    let run = builds.mlprof("./usual.sh");
    assert_eq!(run.code, Some(127), "{run:?}");
    let said = line(&run, "mlprof:   start ");
    assert!(
        said.contains(name) && said.ends_with("target/debug/app, which does not exist"),
        "{run:?}"
    );

    assert_eq!(builds.run("cargo", &["build"]).code, Some(0));
    let run = builds.mlprof("./usual.sh");
    assert_eq!(run.code, Some(0), "{run:?}");
    let said = line(&run, "mlprof:   start ");
    assert!(
        said.contains(name) && said.ends_with("target/debug/app, which has no hooks"),
        "{run:?}"
    );

    builds.write_script("right.sh", "cargo build && \"$CARGO_TARGET_DIR/debug/app\"");
    let run = builds.mlprof("./right.sh");
    assert_eq!((run.code, builds.calls(FUNCTION)), (Some(0), 10), "{run:?}");
}

/// A build script that waits for the lock of its own build folder would wait forever.
#[test]
fn build_scripts_may_call_cargo_and_compilers() {
    let builds = Builds::new();
    let script = r#"
        fn main() {
            println!("cargo::rerun-if-changed=inner");
            let call = |variable: &str, arguments: &[&str]| {
                let mut command = std::process::Command::new(std::env::var(variable).unwrap());
                assert!(command.args(arguments).current_dir("inner").status().unwrap().success());
            };
            let (rustc, out) = (std::env::var("RUSTC").unwrap(), std::env::var("OUT_DIR").unwrap());
            call("CARGO", &["build"]);
            let arguments = ["--crate-name", "app", "--out-dir", &out, "src/main.rs"];
            call("RUSTC", &arguments);
            if std::env::var_os("RUSTC_WRAPPER").is_some() {
                call("RUSTC_WRAPPER", &[&[rustc.as_str()], &arguments[..]].concat());
            }
        }"#;
    builds.write("build.rs", script);
    builds.write(
        "inner/Cargo.toml",
        "[package]\nname = \"inner\"\nversion = \"0.1.0\"\n[workspace]\n",
    );
    builds.write("inner/src/main.rs", "fn main() {}\n");
    builds.write_script("run.sh", "touch inner/src/main.rs; cargo run");
    for command in ["cargo run", "./run.sh"] {
        let words = arguments("--quiet --functions app::**", command);
        let words = [&["120", MLPROF], &words[..]].concat();
        let run = builds.run("timeout", &words);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "24\n"), "{command}: {run:?}");
        assert_eq!(builds.calls(FUNCTION), 10, "{command}: {run:?}");
        assert!(!builds.has_hooks("inner/target/debug/inner"));
    }
}
