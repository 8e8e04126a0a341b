//! Parses the command line with which cargo calls rustc.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Command line of rustc, parsed as far as mlprof needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    arguments: Vec<OsString>,
    /// Index of the crate's root file in the arguments.
    source: Option<usize>,
}

impl Invocation {
    /// Parses the arguments that follow the compiler's name.
    pub fn new(arguments: Vec<OsString>) -> Self {
        let is_source = |argument: &OsString| {
            let path = Path::new(argument);
            path.extension() == Some(OsStr::new("rs"))
        };
        // An option's value may also end in `.rs`, so it is not taken for the root file.
        let source = arguments.iter().enumerate().position(|(at, argument)| {
            let follows_option = at > 0 && takes_a_value(&arguments[at - 1]);
            is_source(argument) && !follows_option && !is_option(argument)
        });
        Self { arguments, source }
    }

    /// Returns all arguments.
    pub fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// Returns the root file of the crate, exactly as given.
    pub fn source(&self) -> Option<&Path> {
        self.source.map(|at| Path::new(&self.arguments[at]))
    }

    /// Returns the arguments with another root file and additional arguments at the end.
    pub fn with(&self, source: Option<&Path>, more: &[OsString]) -> Vec<OsString> {
        let mut arguments = self.arguments.clone();
        if let (Some(at), Some(source)) = (self.source, source) {
            arguments[at] = source.into();
        }
        arguments.extend_from_slice(more);
        arguments
    }

    /// Returns the arguments for a compilation that only reports diagnostics. Its output goes to
    /// `folder`.
    pub fn only_checking(&self, folder: &Path) -> Vec<OsString> {
        let mut arguments = Vec::with_capacity(self.arguments.len() + 2);
        let mut rest = self.arguments.iter().peekable();
        while let Some(argument) = rest.next() {
            let text = argument.to_str().unwrap_or_default();
            let mut is_next_incremental =
                || rest.peek().is_some_and(|next| next.to_str().is_some_and(is_incremental));
            let has_value_apart = ["--emit", "--out-dir", "-o"].contains(&text);
            if has_value_apart || (text == "-C" && is_next_incremental()) {
                rest.next();
            } else if !text.starts_with("--emit=")
                && !text.starts_with("--out-dir=")
                && !text.strip_prefix("-C").is_some_and(is_incremental)
            {
                arguments.push(argument.clone());
            }
        }
        arguments.extend(["--emit=metadata".into(), "--out-dir".into(), folder.into()]);
        arguments
    }

    /// Returns the values of an option, given as `--name value` or `--name=value`.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let next = |at: usize| self.arguments.get(at + 1).and_then(|value| value.to_str());
        self.arguments.iter().enumerate().filter_map(move |(at, argument)| {
            let argument = argument.to_str()?;
            match argument.strip_prefix(name)? {
                "" => next(at),
                rest => rest.strip_prefix('='),
            }
        })
    }

    /// Returns the values of a codegen option, given as `-C name=value` or `-Cname=value`.
    pub fn codegen_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let next = |at: usize| self.arguments.get(at + 1).and_then(|value| value.to_str());
        let options = self.arguments.iter().enumerate().filter_map(move |(at, argument)| {
            let argument = argument.to_str()?;
            match argument.strip_prefix("-C").or_else(|| argument.strip_prefix("--codegen="))? {
                "" => next(at),
                option => Some(option),
            }
        });
        options.filter_map(move |option| option.strip_prefix(name)?.strip_prefix('='))
    }

    fn codegen<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.codegen_values(name).next()
    }

    /// Returns `true` if the option is passed to the linker.
    pub fn has_link_argument(&self, option: &str) -> bool {
        let several = self.codegen_values("link-args").flat_map(str::split_whitespace);
        self.codegen_values("link-arg").chain(several).any(|argument| argument == option)
    }

    /// Returns the crate name, with underscores.
    pub fn crate_name(&self) -> Option<&str> {
        self.values("--crate-name").next()
    }

    /// Returns the suffix of the crate's output files.
    fn extra_filename(&self) -> &str {
        self.codegen("extra-filename").unwrap_or_default()
    }

    /// Returns a name that is unique among crates with the same name and among profiles. In cargo's
    /// newer layout, programs have no suffix, so the metadata hash is used.
    pub fn unit(&self) -> String {
        let name = self.crate_name().unwrap_or_default();
        match (self.extra_filename(), self.codegen("metadata")) {
            ("", Some(metadata)) => format!("{name}-{metadata}"),
            (suffix, _) => format!("{name}{suffix}"),
        }
    }

    /// Returns the output folder of the crate.
    pub fn out_dir(&self) -> Option<PathBuf> {
        self.path("--out-dir")
    }

    /// Returns the path value of an option. The path may contain bytes that are not UTF-8.
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.arguments.iter().enumerate().find_map(|(at, argument)| {
            let rest = argument.as_encoded_bytes().strip_prefix(name.as_bytes())?;
            match rest {
                [] => self.arguments.get(at + 1).map(PathBuf::from),
                [b'=', ..] => {
                    argument.to_str()?.strip_prefix(name)?.strip_prefix('=').map(PathBuf::from)
                }
                _ => None,
            }
        })
    }

    /// Returns `true` if a crate is compiled. Cargo also calls the compiler to query its
    /// properties.
    pub fn compiles(&self) -> bool {
        self.source.is_some() && self.crate_name().is_some_and(|name| name != "___")
    }

    /// Returns `true` if cargo caps the lint level, as it does for dependencies from outside the
    /// workspace.
    pub fn caps_lints(&self) -> bool {
        self.values("--cap-lints").next().is_some()
    }

    /// Returns `true` for a procedural macro, which runs inside the compiler.
    pub fn is_proc_macro(&self) -> bool {
        self.values("--crate-type").any(|kind| kind == "proc-macro")
    }

    /// Returns `true` for a build script, which cargo runs during the build.
    pub fn is_build_script(&self) -> bool {
        self.crate_name().is_some_and(|name| name.starts_with("build_script_"))
    }

    /// Returns `true` if a test program is compiled.
    pub fn is_test(&self) -> bool {
        self.arguments.iter().any(|argument| argument == "--test")
    }

    /// Returns `true` if the crate has one of the given types. Cargo names no type for tests and
    /// benchmarks with their own `main`.
    fn is_of_type(&self, types: &[&str]) -> bool {
        let mut named = self.values("--crate-type").peekable();
        if named.peek().is_none() {
            types.contains(&"bin")
        } else {
            named.any(|kind| types.contains(&kind))
        }
    }

    /// Returns `true` if the output is a program that a user runs.
    pub fn is_program(&self) -> bool {
        let is_binary = self.is_test() || self.is_of_type(&["bin"]);
        is_binary && self.links() && !self.is_build_script()
    }

    /// Returns `true` if the linker is called.
    pub fn links(&self) -> bool {
        let emits = self.values("--emit").flat_map(|kinds| kinds.split(',')).collect::<Vec<_>>();
        let emits_link = emits.is_empty() || emits.contains(&"link");
        emits_link && (self.is_test() || self.is_of_type(&["bin", "dylib", "cdylib", "proc-macro"]))
    }

    /// Returns the dependency file, which lists the source files of the crate for cargo.
    pub fn dep_info(&self) -> Option<PathBuf> {
        let name = format!("{}{}.d", self.crate_name()?, self.extra_filename());
        Some(self.out_dir()?.join(name))
    }
}

fn is_incremental(option: &str) -> bool {
    option.starts_with("incremental=")
}

fn is_option(argument: &OsStr) -> bool {
    argument.as_encoded_bytes().starts_with(b"-")
}

/// Returns `true` if the next argument is the value of this option.
fn takes_a_value(argument: &OsStr) -> bool {
    argument.to_str().is_some_and(|argument| {
        let long = ["--cfg", "--check-cfg", "--crate-name", "--crate-type", "--edition", "--emit"];
        let more = ["--extern", "--out-dir", "--cap-lints", "--target", "--remap-path-prefix"];
        let short = ["-A", "-W", "-D", "-F", "-C", "-L", "-l", "-o", "-Z"];
        long.contains(&argument) || more.contains(&argument) || short.contains(&argument)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation(line: &str) -> Invocation {
        Invocation::new(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn a_library_of_cargos_is_understood() {
        let library = invocation(
            "--crate-name candle_core --edition=2021 /r/candle-core/src/lib.rs --error-format=json \
             --crate-type lib --emit=dep-info,metadata,link -C opt-level=3 -C metadata=f00 \
             -C extra-filename=-f00 --out-dir /t/deps -L dependency=/t/deps --cap-lints allow",
        );
        assert_eq!(library.crate_name(), Some("candle_core"));
        assert_eq!(library.source(), Some(Path::new("/r/candle-core/src/lib.rs")));
        assert_eq!(library.dep_info(), Some("/t/deps/candle_core-f00.d".into()));
        assert!(library.compiles() && !library.links() && !library.is_program());
        let other = library.with(Some(Path::new("/o/lib.rs")), &["--cap-lints=warn".into()]);
        assert!(
            other.contains(&"/o/lib.rs".into()) && other.ends_with(&["--cap-lints=warn".into()])
        );
        let checking = invocation(
            "--crate-name a a.rs --emit=dep-info,link -C incremental=/t/i -C opt-level=3 \
             --out-dir /t/deps -Cincremental=/t/i --test",
        );
        let expected = "--crate-name a a.rs -C opt-level=3 --test --emit=metadata --out-dir /o";
        assert_eq!(checking.only_checking("/o".as_ref()).join(OsStr::new(" ")), expected);
    }

    #[test]
    fn programs_tests_and_helpers_of_the_build_are_told_apart() {
        let program =
            invocation("--crate-name app --crate-type bin --emit=dep-info,link src/main.rs");
        assert!(program.is_program() && program.links());
        let test = invocation("--crate-name app --test --emit=dep-info,link src/lib.rs");
        assert!(test.is_program());
        let bench = invocation("--crate-name be --emit=dep-info,link benches/be.rs --cfg test");
        assert!(bench.is_program() && bench.links(), "without a harness");
        let checked = invocation("--crate-name app --crate-type bin --emit=metadata src/main.rs");
        assert!(!checked.is_program() && !checked.links());
        let script = invocation("--crate-name build_script_build --crate-type bin build.rs");
        assert!(script.links() && !script.is_program() && script.is_build_script());
        let derive = invocation("--crate-name derive --crate-type proc-macro src/lib.rs");
        assert!(derive.is_proc_macro() && derive.links());
        assert!(!invocation("-vV").compiles());
        assert!(!invocation("- --crate-name ___ --print=file-names").compiles());
        assert_eq!(invocation("--crate-name a --out-dir x.rs").source(), None);
    }

    #[test]
    fn units_and_options_are_found_in_each_form() {
        let old = invocation(
            "--crate-name a a.rs -C metadata=f0 -C extra-filename=-e1 --out-dir=/t/deps",
        );
        assert_eq!((old.unit().as_str(), old.out_dir()), ("a-e1", Some("/t/deps".into())));
        // In cargo's newer layout, programs have no suffix.
        assert_eq!(invocation("--crate-name a a.rs -C metadata=f0").unit(), "a-f0");
        let options = invocation(
            "a.rs -Ctarget-feature=+a -C target-feature=-b --codegen=link-args=-x -static",
        );
        assert_eq!(options.codegen_values("target-feature").collect::<Vec<_>>(), ["+a", "-b"]);
        assert!(options.has_link_argument("-x") && !options.has_link_argument("-static"));
    }
}
