//! Compiles programs with and without hooks, and runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use mlprof_instrument::{Selection, SplicedCrate, splice_crate};
use tempfile::TempDir;

/// Stub library that instrumented test programs are linked with.
static STUB: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = TempDir::new().expect("a folder");
    let library = folder.path().join("libmlprof_stub.so");
    let mut rustc = rustc("2024");
    rustc.args(["--crate-type", "cdylib", "--crate-name", "mlprof_stub", "-o"]).arg(&library);
    compiled(rustc.arg(fixtures().join("stub.rs")));
    (folder, library)
});

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/splice/fixtures")
}

fn rustc(edition: &str) -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", edition]);
    rustc
}

fn compiled(rustc: &mut Command) -> String {
    let output = rustc.output().expect("rustc runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    errors
}

/// Program that is compiled twice, with and without hooks.
pub struct Fixture {
    name: &'static str,
    edition: &'static str,
    folder: TempDir,
    plain: PathBuf,
    spliced: PathBuf,
    /// Result of instrumenting the last crate.
    pub result: SplicedCrate,
}

impl Fixture {
    /// Compiles a fixture's libraries and then its `main.rs`. The libraries are files of the
    /// fixture, and each is a crate with the fixture's name.
    pub fn new(
        name: &'static str,
        edition: &'static str,
        libraries: &[&str],
        selection: &Selection,
    ) -> Self {
        let mut fixture = Self::copied(name, edition);
        for library in libraries {
            fixture.build(library, "rlib", selection);
        }
        fixture.build("main.rs", "bin", selection);
        fixture
    }

    /// Compiles a fixture's `main.rs` without linking it.
    pub fn checked(name: &'static str, edition: &'static str, selection: &Selection) -> Self {
        let mut fixture = Self::copied(name, edition);
        fixture.build("main.rs", "rlib", selection);
        fixture
    }

    fn copied(name: &'static str, edition: &'static str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let (plain, spliced) = (folder.path().join("plain"), folder.path().join("spliced"));
        copy(&fixtures().join(name), &plain);
        copy(&plain, &spliced);
        Self { name, edition, folder, plain, spliced, result: SplicedCrate::default() }
    }

    fn build(&mut self, root: &str, crate_type: &str, selection: &Selection) {
        self.result =
            splice_crate(&self.plain.join(root), self.name, selection).expect("the root is there");
        for file in &self.result.files {
            let relative = file.path.strip_prefix(&self.plain).expect("a file of the fixture");
            std::fs::write(self.spliced.join(relative), &file.text).expect("the overlay");
        }
        let warnings = [&self.plain, &self.spliced].map(|folder| {
            let mut rustc = rustc(self.edition);
            rustc.current_dir(folder).args(["--crate-name", self.name, "--crate-type", crate_type]);
            rustc.args(["--cap-lints", "warn", "-g", "-C"]).arg(format!("metadata={root}"));
            let library = format!("lib{}.rlib", self.name);
            if crate_type == "bin" && folder.join(&library).exists() {
                rustc.arg("--extern").arg(format!("{}={library}", self.name));
            }
            if crate_type == "bin" && folder == &self.spliced {
                rustc.arg(format!("-Clink-arg={}", STUB.1.display()));
            }
            rustc.arg(root);
            compiled(&mut rustc)
        });
        let [before, after] = warnings
            .each_ref()
            .map(|text| text.lines().filter(|line| line.starts_with("warning")).count());
        assert!(after <= before, "{}", warnings[1]);
    }

    /// Runs both programs, whose output must be equal. Returns the record of the instrumented one,
    /// with a line per site and inputs: count, kind, name, location, inputs.
    pub fn run(&self, wanted: u32) -> Vec<String> {
        let plain = output(&mut Command::new(self.plain.join(self.name)));
        let record = self.folder.path().join("record");
        let mut spliced = Command::new(self.spliced.join(self.name));
        let folder = STUB.1.parent().expect("a folder");
        spliced
            .env("MLPROF_WANTED", wanted.to_string())
            .env("MLPROF_RECORD", &record)
            .env("LD_LIBRARY_PATH", folder)
            .env("DYLD_LIBRARY_PATH", folder);
        let spliced = output(&mut spliced);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&plain.stdout), text(&spliced.stdout));
        // Panic messages contain the line and column. Thread numbers are removed, because they may
        // differ.
        assert_eq!(without_numbers(&text(&plain.stderr)), without_numbers(&text(&spliced.stderr)));
        let record = std::fs::read_to_string(record).expect("the record");
        record.lines().map(str::to_owned).collect()
    }

    /// Runs the program without hooks and returns its standard output.
    pub fn printed(&self) -> String {
        let plain = output(&mut Command::new(self.plain.join(self.name)));
        String::from_utf8_lossy(&plain.stdout).into_owned()
    }

    /// Returns the new text of a file, or `None` if the file is unchanged.
    pub fn text(&self, file: &str) -> Option<&str> {
        let path = self.plain.join(file);
        self.result.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

/// Removes the thread number from panic messages.
fn without_numbers(text: &str) -> String {
    let lines = text.lines().map(|line| match (line.find(" ("), line.find(") panicked at ")) {
        (Some(start), Some(end)) => format!("{}{}", &line[..start], &line[end..]),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn output(command: &mut Command) -> Output {
    let output = command.env("RUST_BACKTRACE", "0").output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    output
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("a file");
        }
    }
}
