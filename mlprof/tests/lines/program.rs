//! Instruments, compiles and runs a program in this process.

use std::ffi::{CString, c_void};
use std::path::Path;
use std::process::Command;

use mlprof_core::lines::{LineProfiler, abi};
use mlprof_core::report::LinesReport;
use mlprof_instrument::edit::Edits;
use mlprof_instrument::lines::{LineFunction, TEMPLATE, splice_lines};
use syn::visit::{self, Visit};

/// Replacement for the runtime library, which forwards the calls to this process.
const STUB: &str = r"
mod __mlprof_stub {
    use std::sync::atomic::{AtomicPtr, Ordering};
    static TABLE: AtomicPtr<[*const (); 6]> = AtomicPtr::new(0 as *mut _);
    #[unsafe(no_mangle)] pub extern fn run_with(table: *mut [*const (); 6]) {
        TABLE.store(table, Ordering::SeqCst);
        ::run();
    }
    type Of1 = extern fn(*const ());
    type Of2 = extern fn(*const (), u32);
    type Of3 = extern fn(*const (), *const (), u32);
    fn entry(at: usize) -> *const () { unsafe { (*TABLE.load(Ordering::Relaxed))[at] } }
    #[unsafe(no_mangle)] extern fn mlprof_lines_declare(_: *const ()) {}
    #[unsafe(no_mangle)] extern fn mlprof_lines_enter(s: *const (), f: *const (), k: u32) {
        unsafe { std::mem::transmute::<_, Of3>(entry(0))(s, f, k) }
    }
    #[unsafe(no_mangle)] extern fn mlprof_lines_at(f: *const (), p: u32) {
        unsafe { std::mem::transmute::<_, Of2>(entry(1))(f, p) }
    }
    #[unsafe(no_mangle)] extern fn mlprof_lines_back(f: *const (), p: u32) {
        unsafe { std::mem::transmute::<_, Of2>(entry(2))(f, p) }
    }
    #[unsafe(no_mangle)] extern fn mlprof_lines_leave(f: *const ()) {
        unsafe { std::mem::transmute::<_, Of1>(entry(3))(f) }
    }
    #[unsafe(no_mangle)] extern fn mlprof_lines_suspend(f: *const ()) {
        unsafe { std::mem::transmute::<_, Of1>(entry(4))(f) }
    }
    #[unsafe(no_mangle)] extern fn mlprof_lines_resume(f: *const ()) {
        unsafe { std::mem::transmute::<_, Of1>(entry(5))(f) }
    }
}
";

/// Returns the hits given by comments at the ends of lines, such as `//= 3`.
pub fn hits_written(source: &str) -> Vec<(u32, u64)> {
    let written = source.lines().zip(1..).filter_map(|(line, number)| {
        let (_, hits) = line.split_once("//=")?;
        Some((number, hits.trim().parse().expect("a number of hits")))
    });
    written.collect()
}

/// Instruments all functions of `source` except `run`.
fn marked(source: &str, file: &Path) -> String {
    let parsed = syn::parse_file(source).expect("a program");
    let mut edits = Edits::default();
    let mut marker = Marker { source, file, edits: &mut edits };
    marker.visit_file(&parsed);
    edits.apply(source)
}

struct Marker<'a> {
    source: &'a str,
    file: &'a Path,
    edits: &'a mut Edits,
}

impl Marker<'_> {
    fn mark(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let name = signature.ident.to_string();
        if name == "run" || signature.constness.is_some() {
            return;
        }
        let start = block.brace_token.span.open().byte_range().end;
        let function = LineFunction { name: &name, file: self.file, signature, block, start };
        splice_lines(self.edits, &function, self.source).expect("marked");
    }
}

impl<'ast> Visit<'ast> for Marker<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.mark(&node.sig, &node.block);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.mark(&node.sig, &node.block);
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.mark(&node.sig, block);
        }
        visit::visit_trait_item_fn(self, node);
    }
}

/// Runs the function `run` of the program and reports its lines.
pub fn run(source: &str, edition: &str) -> LinesReport {
    run_with(source, edition, &LineProfiler::new())
}

pub fn run_with(source: &str, edition: &str, profiler: &LineProfiler) -> LinesReport {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("program.rs");
    std::fs::write(&file, source).expect("written");
    let text = marked(source, &file);
    assert_eq!(text.lines().count(), source.lines().count(), "lines keep their numbers");
    let is_oldest = edition == "2015";
    let crate_path = if is_oldest { "::run" } else { "crate::run" };
    let core = if is_oldest { "extern crate core;" } else { "" };
    let text = format!(
        "{text}\n{core} #[allow(warnings)] mod __mlprof {{ pub fn wanted() -> u32 {{ 256 }} {TEMPLATE} }}{}",
        STUB.replace("::run", crate_path),
    );
    let spliced = directory.path().join("spliced.rs");
    std::fs::write(&spliced, &text).expect("written");
    let library = directory.path().join("program.so");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--crate-type", "cdylib", "--cap-lints", "allow", "--edition", edition]);
    let output = rustc.arg("-o").arg(&library).arg(&spliced).output().expect("rustc");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "edition {edition}: {errors}\n{text}");
    call(&library);
    let mut report = profiler.report();
    let file = file.display().to_string();
    report.functions.retain(|function| function.file == file);
    report.header.notes.retain(|note| note.contains(&file));
    report
}

fn call(library: &Path) {
    let path = CString::new(library.display().to_string()).expect("a path");
    // SAFETY: `path` is a NUL-terminated string. The library is a test program without
    // initialisation code. It is never unloaded, because threads and counters may refer to it.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "cannot load {}", library.display());
    // SAFETY: `handle` refers to a loaded library, and the symbol name is NUL-terminated.
    let found = unsafe { libc::dlsym(handle, c"run_with".as_ptr()) };
    assert!(!found.is_null(), "no run_with");
    // SAFETY: the stub defines `run_with` with this signature, and the pointer is not null.
    let run =
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(*const [*const (); 6])>(found) };
    let table = Box::leak(Box::new([
        abi::enter as *const (),
        abi::at as *const (),
        abi::back as *const (),
        abi::leave as *const (),
        abi::suspend as *const (),
        abi::resume as *const (),
    ]));
    run(table);
}
