//! Checks whether programs for a platform can load the runtime library.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use mlprof_events::files;

use super::invocation::Invocation;
use mlprof_instrument::Fingerprint;

/// Platform that a crate is compiled for, as described by rustc.
#[derive(Debug, PartialEq, Eq)]
struct Platform {
    /// Architecture, operating system and C library.
    parts: [String; 3],
    is_static: bool,
}

/// Returns the platform of this program, which is also that of the embedded runtime library.
fn own() -> Platform {
    let environments = [("gnu", cfg!(target_env = "gnu")), ("musl", cfg!(target_env = "musl"))];
    let environment = environments.iter().find(|(_, is_own)| *is_own).map_or("", |(name, _)| name);
    let parts = [std::env::consts::ARCH, std::env::consts::OS, environment];
    Platform { parts: parts.map(str::to_owned), is_static: false }
}

/// Returns the reason why programs with this crate cannot have hooks, or `None` if they can. The
/// compiler is queried once per run and platform, and the answer is cached in the folder of the
/// run.
pub fn obstacle(compiler: &OsStr, invocation: &Invocation, run: &Path) -> Option<String> {
    let mut options = Vec::new();
    for target in invocation.values("--target") {
        options.extend(["--target", target]);
    }
    let features: Vec<_> = invocation
        .codegen_values("target-feature")
        .map(|value| format!("-Ctarget-feature={value}"))
        .collect();
    options.extend(features.iter().map(String::as_str));
    // Target specification files require unstable options, so these are passed on.
    options.extend(invocation.values("-Z").flat_map(|option| ["-Z", option]));
    // If the query fails, the compilation itself will report the problem.
    let mut platform = Platform::parse(&description(compiler, &options, run).ok()?);
    platform.is_static |= STATIC.iter().any(|option| invocation.has_link_argument(option));
    platform.obstacle(&own())
}

fn description(compiler: &OsStr, options: &[&str], run: &Path) -> io::Result<String> {
    let key = Fingerprint::default().with(compiler.as_encoded_bytes());
    let key = options.iter().fold(key, |key, option| key.with(&[0]).with(option.as_bytes()));
    let file = run.join(format!("platform-{:016x}", key.number()));
    if let Ok(text) = files::read_text(&file, LONGEST) {
        return Ok(text);
    }
    let mut command = Command::new(compiler);
    command.args(["--print", "cfg"]).args(options).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other("cannot query the platform of the compiler"));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // If the cache file cannot be written, the next process queries the compiler again.
    let _ = files::replace(&file, text.as_bytes());
    Ok(text)
}

/// Maximum size of a platform description in bytes.
const LONGEST: u64 = 1 << 20;

impl Platform {
    fn parse(text: &str) -> Self {
        let value = |key: &str| {
            let mut values =
                text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            values.next().unwrap_or_default().trim_matches('"').to_owned()
        };
        Self {
            parts: ["target_arch", "target_os", "target_env"].map(value),
            is_static: text.lines().any(|line| line == r#"target_feature="crt-static""#),
        }
    }

    fn name(&self) -> String {
        let parts = self.parts.iter().map(String::as_str);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
    }

    fn obstacle(&self, own: &Self) -> Option<String> {
        if self.parts != own.parts {
            return Some(format!(
                "it is built for {}, but this mlprof supports programs for {}",
                self.name(),
                own.name()
            ));
        }
        self.is_static.then(|| {
            "it is linked statically (crt-static), so it cannot load the shared runtime library of \
             mlprof; build it without the target feature crt-static"
                .to_owned()
        })
    }
}

/// Linker driver options that make programs static.
const STATIC: [&str; 2] = ["-static", "-static-pie"];

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn static_and_foreign_programs_cannot_load_the_library() {
        let own = Platform::parse(
            "target_arch=\"x86_64\"\ntarget_env=\"gnu\"\ntarget_os=\"linux\"\nunix\n",
        );
        assert_eq!(own.name(), "x86_64-linux-gnu");
        assert_eq!(own.obstacle(&own), None);
        let text = "target_arch=\"x86_64\"\ntarget_env=\"gnu\"\ntarget_feature=\"crt-static\"\ntarget_os=\"linux\"\n";
        let reason = Platform::parse(text).obstacle(&own).expect("it is static");
        assert!(reason.contains("crt-static"), "{reason}");
        for (text, name) in [
            (
                "target_arch=\"aarch64\"\ntarget_env=\"gnu\"\ntarget_os=\"linux\"\n",
                "aarch64-linux-gnu",
            ),
            (
                "target_arch=\"x86_64\"\ntarget_env=\"musl\"\ntarget_feature=\"crt-static\"\ntarget_os=\"linux\"\n",
                "x86_64-linux-musl",
            ),
            ("target_arch=\"wasm32\"\ntarget_env=\"\"\ntarget_os=\"unknown\"\n", "wasm32-unknown"),
        ] {
            let reason = Platform::parse(text).obstacle(&own).expect("another platform");
            assert!(reason.contains(&format!("for {name},")), "{reason}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_compiler_is_asked_once_per_set_of_options() {
        let run = tempfile::tempdir().expect("a folder");
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let obstacle = |line: &str| {
            let invocation = Invocation::new(line.split(' ').map(OsString::from).collect());
            obstacle(&compiler, &invocation, run.path())
        };
        assert_eq!(obstacle("--crate-name a a.rs"), None);
        assert_eq!(obstacle("--crate-name b b.rs -C target-feature=-crt-static"), None);
        assert!(obstacle("--crate-name a a.rs -C target-feature=+crt-static").is_some());
        assert!(obstacle("--crate-name a a.rs -Ctarget-feature=+crt-static").is_some());
        assert!(obstacle("--crate-name a a.rs -C link-arg=-static").is_some());
        assert!(obstacle("--crate-name a a.rs --target wasm32-unknown-unknown").is_some());
        assert_eq!(std::fs::read_dir(run.path()).expect("a folder").count(), 4);
        let answers = std::fs::read_dir(run.path()).expect("a folder").filter_map(Result::ok);
        answers.for_each(|answer| std::fs::write(answer.path(), "end\n").expect("written"));
        assert!(obstacle("--crate-name a a.rs").is_some(), "the answer that was kept counts");
    }
}
