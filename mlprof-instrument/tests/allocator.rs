//! Compiles and runs programs with an inserted tracking allocator.

use std::path::Path;
use std::process::Command;

use mlprof_instrument::allocator::{copies_text, may_have_allocator, wrap};
use mlprof_instrument::edit::Edits;

/// Replacement for the runtime library: a crate that records the reported events.
const RUNTIME: &str = r#"
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering::Relaxed};

#[unsafe(no_mangle)]
pub static MLPROF_WANTED: AtomicU32 = AtomicU32::new(0);
pub static CALLS: AtomicUsize = AtomicUsize::new(0);
pub static BYTES: AtomicIsize = AtomicIsize::new(0);
pub static COPIED: AtomicUsize = AtomicUsize::new(0);

fn count(bytes: isize) {
    CALLS.fetch_add(1, Relaxed);
    BYTES.fetch_add(bytes, Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn mlprof_allocated(address: usize, bytes: usize) {
    assert!(address != 0);
    count(bytes as isize);
}

#[unsafe(no_mangle)]
pub extern "C" fn mlprof_freed(address: usize, bytes: usize) {
    assert!(address != 0);
    count(-(bytes as isize));
}

#[unsafe(no_mangle)]
pub extern "C" fn mlprof_kept(_address: usize, bytes: usize) {
    count(bytes as isize);
}

#[unsafe(no_mangle)]
pub extern "C" fn mlprof_copied(bytes: usize) {
    COPIED.fetch_add(bytes, Relaxed);
}

/// How many calls `work` made, and how many bytes of it are left.
pub fn counted<T>(wanted: u32, work: impl FnOnce() -> T) -> (usize, isize, T) {
    let (calls, bytes) = (CALLS.load(Relaxed), BYTES.load(Relaxed));
    MLPROF_WANTED.store(wanted, Relaxed);
    let result = work();
    MLPROF_WANTED.store(0, Relaxed);
    (CALLS.load(Relaxed) - calls, BYTES.load(Relaxed) - bytes, result)
}
"#;

const WORK: &str = r#"
fn main() {
    let (calls, bytes, mut kept) = runtime::counted(512, || { drop(vec![0_u8; 70]); vec![1_u8; 100] });
    assert_eq!((calls, bytes), (3, 100));
    let (calls, bytes, ()) = runtime::counted(512, || kept.reserve_exact(900));
    assert_eq!((calls, bytes), (2, 900));
    let (calls, _, ()) = runtime::counted(!512, || drop(vec![0_u8; 70]));
    assert_eq!(calls, 0);
    assert_eq!(kept[99], 1);
    own();
}
"#;

fn rustc(folder: &Path, arguments: &[&str]) {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .current_dir(folder)
        .args(["-L", ".", "-D", "warnings"])
        .args(arguments)
        .output()
        .expect("rustc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Instruments, compiles and runs a program in several editions with these options. Its line
/// numbers must not change.
fn run(name: &str, text: &str, options: &[&str]) {
    run_in(&["2015", "2021", "2024"], name, text, options);
}

fn run_in(editions: &[&str], name: &str, text: &str, options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text);
    write("runtime.rs", RUNTIME).expect("written");
    rustc(folder.path(), &["--edition", "2024", "--crate-type", "rlib", "runtime.rs"]);
    let text = text.to_owned() + WORK;
    let file: syn::File = syn::parse_str(&text).expect("a file");
    let mut edits = Edits::default();
    let found = wrap(&file, &[], &mut edits);
    assert_eq!(found.is_any(), may_have_allocator(&text), "{name}");
    let first = syn::spanned::Spanned::span(&file.items[0]).byte_range().start;
    edits.insert(first, found.root_text(true));
    edits.insert(first, copies_text());
    let spliced = edits.apply(&text);
    assert_eq!(spliced.lines().count(), text.lines().count());
    write("program.rs", &spliced).expect("written");
    for edition in editions {
        let mut arguments = vec!["--edition", edition, "program.rs", "--extern", "runtime"];
        arguments.extend(["--check-cfg=cfg(special)"]);
        arguments.extend(options);
        rustc(folder.path(), &arguments);
        let program = folder.path().join("program");
        let output = Command::new(program).output().expect("starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} in {edition}: {errors}");
    }
}

#[test]
fn a_program_without_an_allocator() {
    let text = "#![deny(unsafe_code)]\nextern crate runtime;\nfn own() {}\n";
    run("none", text, &[]);
}

/// Program that copies every size with both directions of overlap. All copies must be correct. Only
/// large copies are reported, and only while they are wanted.
const COPIES: &str = r#"
extern crate runtime;
fn own() {
    use std::sync::atomic::Ordering::Relaxed;
    let large: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
    let (_, _, clone) = runtime::counted(512, || (large.clone(), large[..60_000].to_vec()));
    assert_eq!(clone.0, large);
    assert_eq!(runtime::COPIED.load(Relaxed), 100_000);
    drop(std::hint::black_box(&large).clone());
    let mut moved = large.clone();
    let (_, _, ()) = runtime::counted(512, || moved.copy_within(0..90_000, 5));
    assert_eq!(&moved[5..90_005], &large[..90_000]);
    assert_eq!(runtime::COPIED.load(Relaxed), 190_000);
    for size in 0..300 {
        for (from, to) in [(0, 7), (7, 0), (0, 0), (0, 400)] {
            let mut bytes = large[..1_000].to_vec();
            bytes.copy_within(from..from + std::hint::black_box(size), to);
            assert_eq!(&bytes[to..to + size], &large[from..from + size]);
        }
    }
}
"#;

#[test]
fn large_copies() {
    run("copies", COPIES, &["-Copt-level=0"]);
    run_in(&["2024"], "copies, optimised", COPIES, &["-Copt-level=3"]);
    // With link-time optimisation of the whole program, the functions could be removed as unused.
    run_in(&["2024"], "copies, all at once", COPIES, &["-Copt-level=3", "-Clto=fat"]);
}

/// Program that calls a method of its own allocator and checks a line number.
const OWN: &str = r#"
extern crate runtime;
mod memory {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    pub struct Limited(pub AtomicUsize);
    impl Limited { pub fn calls(&self) -> usize { self.0.load(Relaxed) } }
    unsafe impl GlobalAlloc for Limited {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            self.0.fetch_add(1, Relaxed);
            unsafe { System.alloc(layout) }
        }
        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            unsafe { System.dealloc(memory, layout) }
        }
    }
    ATTRIBUTES
    pub static ALLOCATOR: Limited = Limited(
        AtomicUsize::new(0));
}
fn own() {
    let allocator: &memory::Limited = &memory::ALLOCATOR;
    let before = allocator.calls();
    drop(vec![0_u8; 9]);
    assert_eq!((memory::ALLOCATOR.calls() - before, line!()), (COUNT, LINE));
}
"#;

fn own(attributes: &str, count: &str) -> String {
    let line = OWN.lines().position(|line| line.contains("line!()")).expect("is there") + 1;
    OWN.replace("ATTRIBUTES", attributes).replace("COUNT", count).replace("LINE", &line.to_string())
}

#[test]
fn a_program_with_an_allocator() {
    run("own", &own("#[global_allocator]", "1"), &[]);
}

#[test]
fn an_allocator_under_a_condition() {
    let text = own("#[cfg_attr(special, global_allocator)]", "1");
    run("on", &text, &["--cfg=special"]);
    run("off", &text.replace("(1, ", "(0, "), &[]);
}
