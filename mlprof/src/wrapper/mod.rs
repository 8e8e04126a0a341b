//! The process that cargo starts as its compiler. It inserts hooks into the crate's source and
//! compiles the result with the real compiler. To cargo, the result looks like the original crate.

mod argument_file;
mod compiler;
mod documentation;
mod invocation;
mod location;
mod messages;
mod overlay;
mod platform;
mod unreached;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};

use argument_file::{expanded, is_file};
use compiler::Compiler;
use invocation::Invocation;
use location::is_in_build_script;
use messages::Messages;
use mlprof_events::files;
use overlay::Overlay;

use crate::exit_code::exit_code;
use crate::run::cargo_of_scripts;
use crate::run::notes;
use crate::run::plan::Plan;
use crate::run::record::CrateRecord;
use crate::run::tools::Tool;
use crate::say::say;
use mlprof_instrument::{self as instrument, AllocatorHooks, LeftOut, SplicedCrate};

/// Maximum size in bytes of a source file to search.
const LONGEST_SOURCE: u64 = 64 << 20;
/// Maximum size of a dependency file in bytes.
const LONGEST_DEP_INFO: u64 = 256 << 20;

/// Runs a tool for cargo. `arguments` are those after the tool's own name.
pub fn run(tool: Tool, arguments: Vec<OsString>) -> ExitCode {
    let done = match tool {
        Tool::RustcWrapper => Wrapper::new(arguments).and_then(|wrapper| wrapper.run()),
        Tool::Rustdoc => documentation::run(arguments),
        Tool::Cargo => cargo_of_scripts::run(arguments),
    };
    match done {
        Ok(status) => exit_code(status),
        Err(error) => {
            let what = if tool == Tool::Cargo { "run cargo" } else { "compile this crate" };
            mlprof_report::output::say(format_args!("error: mlprof cannot {what}: {error}"));
            ExitCode::FAILURE
        }
    }
}

struct Wrapper {
    plan: Plan,
    /// Folder of this run.
    run: PathBuf,
    compiler: Compiler,
    invocation: Invocation,
    /// Reason why no crate for this platform can have hooks.
    obstacle: Option<String>,
}

/// Instrumented source of a crate, ready to compile.
struct Prepared {
    overlay: Overlay,
    /// Root file of the crate.
    source: PathBuf,
    /// Working directory of rustc.
    directory: PathBuf,
    more: Vec<OsString>,
}

impl Wrapper {
    fn new(mut arguments: Vec<OsString>) -> io::Result<Self> {
        let (plan, run) = Plan::of_process()?;
        // The first argument is the compiler, or `RUSTC_WORKSPACE_WRAPPER` followed by the
        // compiler.
        let is_program = |argument: &OsString| {
            let is_source = Path::new(argument).extension() == Some(OsStr::new("rs"));
            !is_source && !argument.as_encoded_bytes().starts_with(b"-") && !is_file(argument)
        };
        let programs = arguments.iter().take(2).take_while(|it| is_program(it)).count();
        let rest = arguments.split_off(programs.max(1));
        let compiler =
            Compiler::new(plan.chained_wrapper.as_deref(), arguments, &rest, run.clone())?;
        let invocation = Invocation::new(expanded(rest));
        Ok(Self { plan, run, compiler, invocation, obstacle: None })
    }

    fn run(mut self) -> io::Result<ExitStatus> {
        if !self.invocation.compiles() || is_in_build_script() || !self.is_built_in_run() {
            return self.compiler.start(self.invocation.arguments(), |_| {})?.wait();
        }
        let runs_elsewhere = self.invocation.is_proc_macro() || self.invocation.is_build_script();
        if !runs_elsewhere {
            self.obstacle =
                platform::obstacle(self.compiler.program(), &self.invocation, &self.run);
        }
        let mut record = CrateRecord {
            crate_name: self.invocation.crate_name().unwrap_or_default().to_owned(),
            package: std::env::var("CARGO_PKG_NAME").unwrap_or_default(),
            program: location::program(&self.invocation, &self.plan.target),
            ..CrateRecord::default()
        };
        let allocator_hooks = self.allocator_hooks();
        let has_allocator = allocator_hooks[0] != AllocatorHooks::None;
        let has_additions = self.invocation.is_program() || has_allocator;
        record.fingerprint = self.plan.fingerprint(&record.crate_name, has_additions);
        if let Some(obstacle) = &self.obstacle
            && (has_additions || self.plan.selection.concerns(&record.crate_name))
        {
            let package = &record.package;
            let target = self.invocation.values("--target").next();
            let others = target.map_or_else(
                || "all other crates with these options".to_owned(),
                |target| format!("all other crates for {target}"),
            );
            // Many crates may share a reason, so only the first one is printed.
            notes::say_once(
                &self.run,
                obstacle,
                &format!("{package} and {others} have no hooks: {obstacle}"),
            );
            record.obstacle = Some(obstacle.clone());
        }
        let status = self.compile(&mut record, &allocator_hooks)?;
        if status.success() {
            self.add_unreached(&mut record)?;
            record.write(&self.plan.records(), &self.invocation.unit())?;
        }
        Ok(status)
    }

    /// Returns `true` if the crate is built in the build folder of this run. In any other folder,
    /// the user's own builds would reuse the crate with its hooks.
    fn is_built_in_run(&self) -> bool {
        let folder = self.invocation.out_dir().unwrap_or_default();
        let is_within = location::is_within(&folder, &self.plan.target);
        let name = self.invocation.crate_name().unwrap_or_default();
        if !is_within && (self.invocation.is_program() || self.plan.selection.concerns(name)) {
            let text = format!(
                "warning: crates built in {} have no hooks, because they may be used without \
                 mlprof; only crates built in {}, the CARGO_TARGET_DIR of this command, have hooks",
                location::profile_folder(&folder).unwrap_or(&folder).display(),
                self.plan.target.display()
            );
            notes::say_once(&self.run, &text, &text);
        }
        is_within
    }

    /// Returns the allocator hooks to try, in this order. Only the compiler can determine which
    /// crate of a program defines the allocator.
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
            if self.obstacle.is_some() {
                break;
            }
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
        // If compiling the original fails as well, the error is in the user's code and not in the
        // hooks.
        let arguments = self.invocation.with(None, &self.additions());
        let status = self.compiler.start(&arguments, |_| {})?.wait()?;
        if let Some(failure) = failure.filter(|_| status.success()) {
            let first = failure.lines().take(8).collect::<Vec<_>>().join("\n  ");
            say(&format!("warning: {} is built without hooks:\n  {first}", record.package));
            record.spliced.clear();
            record.cautions.clear();
            record.unspliced = Some(failure);
        }
        Ok(status)
    }

    /// Compiles the source with hooks. If it succeeds, or cargo already uses its output, the
    /// compiler's messages are passed on. Otherwise the first error is returned, and the caller may
    /// try another variant.
    fn compile_spliced(
        &self,
        prepared: &Prepared,
        record: &CrateRecord,
    ) -> io::Result<Result<ExitStatus, String>> {
        let arguments = self.invocation.with(Some(&prepared.source), &prepared.more);
        let mut child = self.compiler.start(&arguments, |command| {
            command.current_dir(&prepared.directory).stderr(Stdio::piped());
        })?;
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
                say(&format!("added hooks to {}: {}", record.package, summary(record)));
            }
        } else if messages.has_artifact() {
            // Cargo has already started to build dependents on this output.
            self.of_the_original(messages, false)?.hand_on(&mut io::stderr())?;
        } else {
            return Ok(Err(messages.first_error().unwrap_or_else(|| status.to_string())));
        }
        Ok(Ok(status))
    }

    /// Replaces the diagnostics of the instrumented source by those of the original source. *Cost*:
    /// if there are diagnostics, the crate is checked once more, without output files.
    fn of_the_original(&self, messages: Messages, is_compiled: bool) -> io::Result<Messages> {
        if !messages.has_diagnostics() {
            return Ok(messages);
        }
        let folder = format!("{}-{}", self.invocation.unit(), std::process::id());
        let folder = self.plan.folder.join("checked").join(folder);
        std::fs::create_dir_all(&folder)?;
        let mut arguments = self.invocation.only_checking(&folder);
        arguments.extend(self.lint_cap());
        let mut child = self.compiler.start(&arguments, |command| {
            command.stderr(Stdio::piped());
        })?;
        let mut original = Messages::default();
        if let Some(said) = child.stderr.take() {
            // Cargo has already received the artifact messages of the instrumented source.
            original.read(said, "\0", &mut io::sink())?;
        }
        let status = child.wait()?;
        let _ = std::fs::remove_dir_all(&folder);
        // Otherwise only the instrumented source fails, and that error must not be hidden.
        let is_same = status.success() == is_compiled;
        Ok(if is_same { messages.with_diagnostics_of(original) } else { messages })
    }

    /// Returns an option that turns denied lints into warnings, because hooks may use features that
    /// the crate forbids.
    fn lint_cap(&self) -> Option<OsString> {
        (!self.invocation.caps_lints()).then(|| "--cap-lints=warn".into())
    }

    /// Inserts hooks into the crate, if any of it is selected.
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
            Some("procedural macros run inside the compiler")
        } else if invocation.is_build_script() {
            Some("build scripts run during the build")
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
        let spliced = instrument::splice_crate_and_allocator(&root, name, selection, hooks)?;
        let (files, passed) = note(spliced, record);
        if files.is_empty() {
            return Ok(None);
        }
        let package =
            std::env::var_os("CARGO_MANIFEST_DIR").map_or(directory.clone(), PathBuf::from);
        // Cargo compiles workspace members from the workspace's folder, and other packages from
        // their own.
        let top = if package.starts_with(&directory) { &directory } else { &package };
        let folder = self.plan.folder.join("overlay").join(invocation.unit());
        // Modules may be outside the package's folder, so the mirrored folder must contain all of
        // them.
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
        // A relative root file stays relative, so that `file!()` returns the same path.
        let is_below = source.is_relative() && top == &directory;
        Ok(Some(Prepared {
            source: if is_below { source.to_owned() } else { overlay.path_of(&root) },
            directory: if is_below { overlay.path_of(&directory) } else { directory },
            overlay,
            more,
        }))
    }

    /// Returns the additional arguments for every crate.
    fn additions(&self) -> Vec<OsString> {
        let mut more = Vec::new();
        if self.plan.frame_pointers {
            more.extend(["-C", "force-frame-pointers=yes"].map(OsString::from));
        }
        if self.invocation.links() && self.obstacle.is_none() {
            let mut link = |argument: &OsStr| {
                more.push("-C".into());
                let mut option = OsString::from("link-arg=");
                option.push(argument);
                more.push(option);
            };
            if self.invocation.is_program() {
                // The linker must keep the library even if the program calls nothing in it, because
                // the library may sample the program.
                link("-Wl,--push-state,--no-as-needed".as_ref());
                link(self.plan.runtime.as_os_str());
                link("-Wl,--pop-state".as_ref());
            } else {
                link(self.plan.runtime.as_os_str());
            }
        }
        more
    }

    /// Lists source files that the compiler read and that were not searched for functions.
    fn add_unreached(&self, record: &mut CrateRecord) -> io::Result<()> {
        let dep_info = self.invocation.dep_info().filter(|_| !record.read.is_empty());
        let read = |path: PathBuf| files::read_text(&path, LONGEST_DEP_INFO);
        if let Some(Ok(text)) = dep_info.map(read) {
            let directory = std::env::current_dir()?;
            let files = unreached::unreached(&text, &directory, &record.read, &record.unseen);
            record.unread.extend(files);
        }
        Ok(())
    }

    /// Replaces overlay paths in the dependency file, because cargo must watch the original files.
    fn rewrite_dep_info(&self, overlay: &str) {
        let Some(path) = self.invocation.dep_info() else { return };
        let Ok(text) = files::read_text(&path, LONGEST_DEP_INFO) else { return };
        let rewritten = text.replace(&overlay.replace(' ', "\\ "), "").replace(overlay, "");
        if rewritten != text {
            // If the write fails, cargo only recompiles the crate in the next build.
            let _ = files::replace(&path, rewritten.as_bytes());
        }
    }
}

/// Returns `true` if a source file in the folder, at most eight levels deep, mentions an allocator.
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
                .is_ok_and(|text| instrument::allocator::may_have_allocator(&text))
    })
}

/// Stores the results in the crate's record. Returns the changed files, and the folders that the
/// compiler passes through to reach its files.
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
