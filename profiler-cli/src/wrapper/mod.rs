//! The process that cargo starts as its compiler: it puts hooks into a crate's text, has the real
//! compiler compile that, and lets cargo believe that it was the original.

mod invocation;
mod messages;
mod overlay;
mod unreached;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use invocation::Invocation;
use messages::Messages;
use overlay::Overlay;
use profiler_events::files;

use crate::exit_code::exit_code;
use crate::run::plan::{PLAN_VARIABLE, Plan};
use crate::run::record::CrateRecord;
use crate::say::say;
use crate::splice::{self, AllocatorHooks, LeftOut, SplicedCrate};

/// Bytes of a source file that is looked at, at most.
const LONGEST_SOURCE: u64 = 64 << 20;
/// Bytes of what cargo is told of a crate's files, at most.
const LONGEST_DEP_INFO: u64 = 256 << 20;

/// Whether this process was started by cargo in place of rustc: `arguments` are those after its own
/// name.
pub fn is_called_as_compiler(arguments: &[OsString]) -> bool {
    let is_compiler = |argument: &OsString| {
        let name = Path::new(argument).file_name().and_then(OsStr::to_str).unwrap_or_default();
        name == "rustc" || name == "clippy-driver"
    };
    // A wrapper for the workspace's own crates comes before the compiler.
    let is_called = arguments.iter().take(2).any(is_compiler);
    is_called && std::env::var_os(PLAN_VARIABLE).is_some()
}

/// Compiles a crate as cargo says, with hooks if the plan says so.
pub fn compile(arguments: Vec<OsString>) -> ExitCode {
    match Wrapper::new(arguments).and_then(|wrapper| wrapper.run()) {
        Ok(status) => exit_code(status),
        Err(error) => {
            let error = format_args!("error: mlprof cannot compile this crate: {error}");
            profiler_report::output::say(error);
            ExitCode::FAILURE
        }
    }
}

struct Wrapper {
    plan: Plan,
    /// The compiler, behind the wrapper that was set before.
    compiler: Vec<OsString>,
    invocation: Invocation,
}

/// A crate's text with hooks, where rustc finds it.
struct Prepared {
    overlay: Overlay,
    /// The root file.
    source: PathBuf,
    /// Where rustc runs.
    directory: PathBuf,
    more: Vec<OsString>,
}

impl Wrapper {
    fn new(mut arguments: Vec<OsString>) -> io::Result<Self> {
        let path = std::env::var_os(PLAN_VARIABLE).unwrap_or_default();
        let plan = Plan::read(Path::new(&path)).map_err(|error| {
            io::Error::other(format!("its plan {} cannot be read: {error}", path.display()))
        })?;
        // The compiler, and before it RUSTC_WORKSPACE_WRAPPER if there is one.
        let is_path = |argument: &OsString| !argument.as_encoded_bytes().starts_with(b"-");
        let programs = arguments.iter().take(2).take_while(|argument| is_path(argument)).count();
        let rest = arguments.split_off(programs.max(1));
        let chained = plan.chained_wrapper.iter().map(|path| path.clone().into_os_string());
        let compiler = chained.chain(arguments).collect();
        Ok(Self { plan, compiler, invocation: Invocation::new(rest) })
    }

    fn run(&self) -> io::Result<ExitStatus> {
        if !self.invocation.compiles() {
            return self.command(self.invocation.arguments()).status();
        }
        let mut record = CrateRecord {
            crate_name: self.invocation.crate_name().unwrap_or_default().to_owned(),
            package: std::env::var("CARGO_PKG_NAME").unwrap_or_default(),
            ..CrateRecord::default()
        };
        let allocator_hooks = self.allocator_hooks();
        let has_allocator = allocator_hooks[0] != AllocatorHooks::None;
        let has_additions = self.invocation.is_program() || has_allocator;
        record.fingerprint = self.plan.fingerprint(&record.crate_name, has_additions);
        let status = self.compile(&mut record, &allocator_hooks)?;
        if status.success() {
            self.add_unreached(&mut record)?;
            record.write(&self.plan.records(), self.invocation.extra_filename())?;
        }
        Ok(status)
    }

    /// What is tried, one after the other: which crate of a program has its allocator is not known
    /// before the compiler says so.
    fn allocator_hooks(&self) -> Vec<AllocatorHooks> {
        let folder = self.invocation.source().and_then(Path::parent);
        if !self.plan.tracks_allocations || self.invocation.is_build_script() {
            vec![AllocatorHooks::None]
        } else if self.invocation.is_program() {
            [true, false].map(|adds| AllocatorHooks::Program { adds }).to_vec()
        } else if folder.is_some_and(|folder| mentions_allocator(folder, 0)) {
            vec![AllocatorHooks::Wrapped]
        } else {
            vec![AllocatorHooks::None]
        }
    }

    fn compile(
        &self,
        record: &mut CrateRecord,
        allocator_hooks: &[AllocatorHooks],
    ) -> io::Result<ExitStatus> {
        let mut failure = None;
        for &hooks in allocator_hooks {
            let prepared = match self.prepare(record, hooks) {
                Ok(Some(prepared)) => prepared,
                Ok(None) => break,
                Err(error) => {
                    failure = Some(error.to_string());
                    break;
                }
            };
            match self.compile_spliced(&prepared, record)? {
                Ok(status) => return Ok(status),
                Err(error) => failure = Some(error),
            }
        }
        // Whose fault it is shows when the original is compiled.
        let status = self.command(&self.invocation.with(None, &self.additions())).status()?;
        if let Some(failure) = failure.filter(|_| status.success()) {
            let first = failure.lines().take(8).collect::<Vec<_>>().join("\n  ");
            say(&format!("warning: {} is built without hooks:\n  {first}", record.package));
            record.spliced.clear();
            record.cautions.clear();
            record.unspliced = Some(failure);
        }
        Ok(status)
    }

    /// Compiles the text with hooks. What the compiler says is handed on if that ends the matter;
    /// else its first error is the answer, and something else may be tried.
    fn compile_spliced(
        &self,
        prepared: &Prepared,
        record: &CrateRecord,
    ) -> io::Result<Result<ExitStatus, String>> {
        let mut command =
            self.command(&self.invocation.with(Some(&prepared.source), &prepared.more));
        command.current_dir(&prepared.directory).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut messages = Messages::default();
        let folder = prepared.overlay.folder().display().to_string();
        if let Some(said) = child.stderr.take() {
            messages.read(said, &folder, &mut io::stderr())?;
        }
        let status = child.wait()?;
        if status.success() {
            self.of_the_original(messages, true)?.hand_on(&mut io::stderr())?;
            self.rewrite_dep_info(&folder);
            if !record.spliced.is_empty() {
                say(&format!("spliced {}: {}", record.package, summary(record)));
            }
        } else if messages.has_artifact() {
            // Cargo builds on it already.
            self.of_the_original(messages, false)?.hand_on(&mut io::stderr())?;
        } else {
            return Ok(Err(messages.first_error().unwrap_or_else(|| status.to_string())));
        }
        Ok(Ok(status))
    }

    /// What the compiler says of the text as its author wrote it, in place of what it says of the text
    /// with hooks. *Cost*: where there is something to say, the crate is looked at once more; nothing
    /// is made of it.
    fn of_the_original(&self, messages: Messages, is_compiled: bool) -> io::Result<Messages> {
        if !messages.has_diagnostics() {
            return Ok(messages);
        }
        let name = self.invocation.crate_name().unwrap_or_default();
        let folder = format!("{name}{}-{}", self.invocation.extra_filename(), std::process::id());
        let folder = self.plan.folder.join("checked").join(folder);
        std::fs::create_dir_all(&folder)?;
        let mut arguments = self.invocation.only_checking(&folder);
        arguments.extend(self.lint_cap());
        let mut child = self.command(&arguments).stderr(Stdio::piped()).spawn()?;
        let mut original = Messages::default();
        if let Some(said) = child.stderr.take() {
            // Cargo is told of the files of the text with hooks.
            original.read(said, "\0", &mut io::sink())?;
        }
        let status = child.wait()?;
        let _ = std::fs::remove_dir_all(&folder);
        // Otherwise the text with hooks has an error of its own, which must not be hidden.
        let is_same = status.success() == is_compiled;
        Ok(if is_same { messages.with_diagnostics_of(original) } else { messages })
    }

    /// What the hooks need must not fail a crate that forbids it.
    fn lint_cap(&self) -> Option<OsString> {
        (!self.invocation.caps_lints()).then(|| "--cap-lints=warn".into())
    }

    /// Puts hooks into the crate, if anything of it is selected.
    fn prepare(
        &self,
        record: &mut CrateRecord,
        hooks: AllocatorHooks,
    ) -> io::Result<Option<Prepared>> {
        let invocation = &self.invocation;
        let selection = &self.plan.selection;
        let is_selected = selection.concerns(&record.crate_name) || hooks != AllocatorHooks::None;
        let Some(source) = invocation.source().filter(|_| is_selected) else { return Ok(None) };
        let runs_elsewhere = if invocation.is_proc_macro() {
            Some("procedural macros run in the compiler")
        } else if invocation.is_build_script() {
            Some("a build script runs while the program is built")
        } else {
            None
        };
        if let Some(reason) = runs_elsewhere {
            let (path, file) = (record.crate_name.clone(), source.to_owned());
            record.left_out = vec![LeftOut { path, file, line: 1, reason: reason.to_owned() }];
            return Ok(None);
        }
        let directory = std::env::current_dir()?;
        let root = directory.join(source);
        let name = &record.crate_name;
        let spliced = splice::splice_crate_and_allocator(&root, name, selection, hooks)?;
        let (files, passed) = note(spliced, record);
        if files.is_empty() {
            return Ok(None);
        }
        let package =
            std::env::var_os("CARGO_MANIFEST_DIR").map_or(directory.clone(), PathBuf::from);
        // Cargo compiles members from the workspace's folder, and others from their own.
        let top = if package.starts_with(&directory) { &directory } else { &package };
        let name = format!("{}{}", record.crate_name, invocation.extra_filename());
        let folder = self.plan.folder.join("overlay").join(name);
        // Modules may be outside of what cargo compiles.
        let mirrored =
            top.ancestors().find(|above| passed.iter().all(|passed| passed.starts_with(above)));
        let mirrored = mirrored.unwrap_or(top);
        let overlay = Overlay::make(&folder, mirrored, &files, &passed)?;
        let mut more = self.additions();
        more.extend(self.lint_cap());
        let mut remap = OsString::from("--remap-path-prefix=");
        remap.push(overlay.path_of(mirrored));
        remap.push("=");
        remap.push(mirrored);
        more.push(remap);
        // A relative root file stays relative, so that `file!()` is what it was.
        let is_below = source.is_relative() && top == &directory;
        Ok(Some(Prepared {
            source: if is_below { source.to_owned() } else { overlay.path_of(&root) },
            directory: if is_below { overlay.path_of(&directory) } else { directory },
            overlay,
            more,
        }))
    }

    /// What every crate is compiled with in addition.
    fn additions(&self) -> Vec<OsString> {
        let mut more = Vec::new();
        if self.plan.frame_pointers {
            more.extend(["-C", "force-frame-pointers=yes"].map(OsString::from));
        }
        if self.invocation.links() {
            let mut link = |argument: &OsStr| {
                more.push("-C".into());
                let mut option = OsString::from("link-arg=");
                option.push(argument);
                more.push(option);
            };
            if self.invocation.is_program() {
                // Also into programs that call nothing of it: it may have to sample them.
                link("-Wl,--push-state,--no-as-needed".as_ref());
                link(self.plan.runtime.as_os_str());
                link("-Wl,--pop-state".as_ref());
            } else {
                link(self.plan.runtime.as_os_str());
            }
        }
        more
    }

    fn command(&self, arguments: &[OsString]) -> Command {
        let mut command = Command::new(&self.compiler[0]);
        command.args(&self.compiler[1..]).args(arguments);
        command
    }

    /// Lists source files that the compiler has read and that were not searched for functions.
    fn add_unreached(&self, record: &mut CrateRecord) -> io::Result<()> {
        let dep_info = self.invocation.dep_info().filter(|_| !record.read.is_empty());
        if let Some(Ok(text)) = dep_info.map(std::fs::read_to_string) {
            let directory = std::env::current_dir()?;
            let files = unreached::unreached(&text, &directory, &record.read, &record.unseen);
            record.unread.extend(files);
        }
        Ok(())
    }

    /// Cargo must watch the originals.
    fn rewrite_dep_info(&self, overlay: &str) {
        let Some(path) = self.invocation.dep_info() else { return };
        let Ok(text) = files::read_text(&path, LONGEST_DEP_INFO) else { return };
        let rewritten = text.replace(&overlay.replace(' ', "\\ "), "").replace(overlay, "");
        if rewritten != text {
            // If it fails, cargo compiles the crate again the next time.
            let _ = files::replace(&path, rewritten.as_bytes());
        }
    }
}

/// Whether a source file in the folder, or not far below it, mentions an allocator.
fn mentions_allocator(folder: &Path, depth: usize) -> bool {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.filter_map(Result::ok).any(|entry| {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return depth < 8 && mentions_allocator(&path, depth + 1);
        }
        path.extension() == Some(OsStr::new("rs"))
            && files::read_text(&path, LONGEST_SOURCE)
                .is_ok_and(|text| splice::allocator::may_have_allocator(&text))
    })
}

/// Keeps what is to be known of a crate; its changed files, and the folders on the way to its files.
fn note(
    spliced: SplicedCrate,
    record: &mut CrateRecord,
) -> (BTreeMap<PathBuf, String>, Vec<PathBuf>) {
    record.spliced = spliced.spliced;
    record.left_out = spliced.left_out;
    record.cautions = spliced.cautions;
    record.unseen = spliced.unseen;
    record.unread = spliced.unread;
    record.seen = spliced.seen;
    record.read = spliced.read;
    let files = spliced.files.into_iter().map(|file| (file.path, file.text)).collect();
    (files, spliced.folders)
}

fn summary(record: &CrateRecord) -> String {
    let functions = match record.spliced.len() {
        1 => "1 function".to_owned(),
        count => format!("{count} functions"),
    };
    match record.left_out.len() + record.unread.len() {
        0 => functions,
        left_out => format!("{functions}, {left_out} left out (see --explain)"),
    }
}
