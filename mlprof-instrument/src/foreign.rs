//! Decides which functions with foreign callers can have hooks.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mlprof_events::files;
use syn::{Attribute, FnArg, ReturnType, Signature, Type};

use super::attributes;

/// Maximum size in bytes of a source file to search.
const LONGEST: u64 = 64 << 20;

/// Calling conventions of ordinary functions. The other conventions are for interrupts and devices.
const ORDINARY: [&str; 15] = [
    "Rust",
    "C",
    "C-unwind",
    "system",
    "system-unwind",
    "cdecl",
    "cdecl-unwind",
    "sysv64",
    "sysv64-unwind",
    "win64",
    "win64-unwind",
    "stdcall",
    "fastcall",
    "thiscall",
    "efiapi",
];

/// Returns the reason why a function with this calling convention cannot have a hook, if any.
pub(super) fn obstacle_of_convention(convention: &str) -> Option<String> {
    (!ORDINARY.contains(&convention)).then(|| {
        format!("a hook cannot run in a function with the calling convention \"{convention}\"")
    })
}

/// Functions of the C library that hooks themselves may call.
const CALLED_BY_HOOKS: [&str; 35] = [
    "abort",
    "aligned_alloc",
    "bcmp",
    "calloc",
    "close",
    "dl_iterate_phdr",
    "dlsym",
    "exit",
    "free",
    "getenv",
    "getpid",
    "gettid",
    "madvise",
    "malloc",
    "malloc_usable_size",
    "memalign",
    "memchr",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "mmap",
    "mremap",
    "munmap",
    "open",
    "posix_memalign",
    "read",
    "realloc",
    "reallocarray",
    "sigaction",
    "sigprocmask",
    "strlen",
    "syscall",
    "write",
    "writev",
];
/// Prefixes of further such functions.
const FAMILIES: [&str; 6] = ["__cxa_", "__libc_", "__tls_", "_Unwind_", "clock_", "pthread_"];

/// Returns the reason why an exported function cannot have a hook, if any. The exported name may
/// differ from the function's own name.
pub(super) fn obstacle_of_export(attributes: &[Attribute], name: &str) -> Option<String> {
    let exported = match attributes::value(attributes, "export_name") {
        Some(exported) => exported,
        None if attributes::has(attributes, "no_mangle") => name.to_owned(),
        None => return None,
    };
    let is_called = CALLED_BY_HOOKS.contains(&exported.as_str())
        || FAMILIES.iter().any(|family| exported.starts_with(family));
    is_called.then(|| format!("it replaces the C library's `{exported}`, which hooks may call"))
}

const HANDLER: &str = "a hook cannot run in a signal handler";

/// Source text of a crate, in which registrations of signal handlers are searched.
#[derive(Debug)]
pub(super) struct SignalHandlers {
    folder: PathBuf,
    texts: OnceLock<Vec<String>>,
}

impl SignalHandlers {
    /// Creates the search for a crate. Files are read only when a function looks like a signal
    /// handler.
    pub fn of_crate(root: &Path) -> Self {
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        Self { folder, texts: OnceLock::new() }
    }

    /// Returns the reason why a function cannot have a hook if it handles signals. Such a function
    /// takes a `siginfo_t`. Alternatively, it takes a number and is registered as a handler
    /// somewhere in the crate.
    pub fn obstacle(&self, signature: &Signature) -> Option<String> {
        if signature.abi.is_none() || !matches!(signature.output, ReturnType::Default) {
            return None;
        }
        let types: Vec<&Type> = signature.inputs.iter().filter_map(argument_type).collect();
        let is_registered = || {
            let name = signature.ident.to_string();
            self.texts().iter().any(|text| registers(text, &name))
        };
        let is_handler = match types[..] {
            [number] => is_number(number) && is_registered(),
            [number, other, _] => is_number(number) && (is_information(other) || is_registered()),
            _ => false,
        };
        is_handler.then(|| HANDLER.to_owned())
    }

    fn texts(&self) -> &[String] {
        self.texts.get_or_init(|| {
            let mut texts = Vec::new();
            read_sources(&self.folder, 0, &mut texts);
            texts
        })
    }
}

fn argument_type(argument: &FnArg) -> Option<&Type> {
    match argument {
        FnArg::Typed(typed) => Some(&typed.ty),
        FnArg::Receiver(_) => None,
    }
}

fn last_name(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

fn is_number(of: &Type) -> bool {
    last_name(of).is_some_and(|name| ["c_int", "i32"].contains(&name.as_str()))
}

fn is_information(of: &Type) -> bool {
    let Type::Ptr(pointer) = of else { return false };
    last_name(&pointer.elem).is_some_and(|name| name == "siginfo_t")
}

/// Returns `true` if the text contains the function's name in a statement about signals.
fn registers(text: &str, name: &str) -> bool {
    const WORDS: [&str; 5] = ["SIG", "SigHandler", "sigaction", "sighandler", "signal"];
    text.match_indices(name).any(|(place, _)| {
        let (before, after) = (&text[..place], &text[place + name.len()..]);
        let is_part =
            |letter: Option<char>| letter.is_some_and(|one| one.is_alphanumeric() || one == '_');
        if is_part(before.chars().next_back()) || is_part(after.chars().next()) {
            return false;
        }
        let statement = before.rsplit([';', '}']).next().unwrap_or_default();
        !statement.trim_end().ends_with("fn") && WORDS.iter().any(|word| statement.contains(word))
    })
}

/// Reads the source files in a folder and its subfolders, at most eight levels deep.
fn read_sources(folder: &Path, depth: usize, texts: &mut Vec<String>) {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth < 8 {
                read_sources(&path, depth + 1, texts);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.extend(files::read_text(&path, LONGEST));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(text: &str) -> Vec<Attribute> {
        syn::parse_str::<syn::ItemFn>(&format!("{text} fn f() {{}}")).expect("a function").attrs
    }

    #[test]
    fn functions_that_replace_those_of_the_c_library_have_no_hooks() {
        let obstacle =
            |text: &str, name: &str| obstacle_of_export(&attributes(text), name).is_some();
        assert!(obstacle("#[no_mangle]", "malloc") && obstacle("#[unsafe(no_mangle)]", "memcpy"));
        assert!(obstacle("#[export_name = \"free\"]", "release"));
        assert!(obstacle("#[unsafe(export_name = \"pthread_create\")]", "x"));
        assert!(!obstacle("#[no_mangle]", "on_event") && !obstacle("#[inline]", "malloc"));
        assert!(!obstacle("#[export_name = \"mine\"]", "malloc"));
        assert!(obstacle_of_convention("x86-interrupt").is_some());
        assert_eq!(obstacle_of_convention("C-unwind"), None);
    }

    #[test]
    fn handlers_of_signals_are_known_by_their_types_and_by_who_registers_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("lib.rs");
        let text = "fn main() { call(callback); libc::signal(libc::SIGINT, handler as usize); \
                    act(); action.sa_sigaction = other as usize; } extern \"C\" fn handler_2(x: i32) {}";
        std::fs::write(&root, text).expect("written");
        let handlers = SignalHandlers::of_crate(&root);
        let is_handler = |text: &str| {
            let function: syn::ItemFn = syn::parse_str(text).expect("a function");
            handlers.obstacle(&function.sig).is_some()
        };
        assert!(is_handler("extern \"C\" fn handler(_: libc::c_int) {}"));
        assert!(is_handler("extern \"C\" fn other(_: i32) {}"));
        assert!(is_handler("extern \"C\" fn any(_: i32, _: *mut siginfo_t, _: *mut c_void) {}"));
        assert!(!is_handler("extern \"C\" fn callback(_: i32) {}"));
        assert!(!is_handler("extern \"C\" fn handler_2(_: i32) {}"));
        assert!(!is_handler("extern \"C\" fn handler(_: i32) -> i32 { 1 }"));
        assert!(!is_handler("fn handler(_: i32) {}"), "Rust's own are called by handlers at most");
    }
}
