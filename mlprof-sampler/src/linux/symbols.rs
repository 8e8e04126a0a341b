//! Symbolisation: from code addresses to functions, with the debug information and symbol tables of
//! libraries.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use addr2line::{Loader, demangle_auto};
use memmap2::Mmap;
use mlprof_events::files;
use object::{Object, ObjectSymbol, SymbolKind};

use super::process_layout::{Libraries, Library};

/// A function in the source or in a symbol table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) library: String,
    pub(super) file: Option<String>,
}

/// One of the functions at an address. It is inlined into the next one, or called by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// Index into [`Symbols::functions`].
    pub(super) function: u32,
    pub(super) line: Option<u32>,
}

/// Look-up of addresses, with a cache.
pub(super) struct Symbols<'libraries> {
    libraries: &'libraries Libraries,
    files: HashMap<usize, SymbolFile>,
    known: HashMap<u64, Vec<Frame>>,
    pub(super) functions: Vec<Function>,
    ids: HashMap<Function, u32>,
}

impl<'libraries> Symbols<'libraries> {
    pub(super) fn new(libraries: &'libraries Libraries) -> Self {
        Self {
            libraries,
            files: HashMap::new(),
            known: HashMap::new(),
            functions: Vec::new(),
            ids: HashMap::new(),
        }
    }

    /// Returns the functions at an address, innermost first. There is at least one.
    pub(super) fn frames(&mut self, address: u64) -> Vec<Frame> {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        let found = self.look_up(address);
        let frames: Vec<Frame> = found
            .into_iter()
            .map(|(function, line)| Frame { function: self.id(function), line })
            .collect();
        self.known.insert(address, frames.clone());
        frames
    }

    pub(super) fn id(&mut self, function: Function) -> u32 {
        if let Some(id) = self.ids.get(&function) {
            return *id;
        }
        let id = self.functions.len() as u32;
        self.functions.push(function.clone());
        self.ids.insert(function, id);
        id
    }

    fn look_up(&mut self, address: u64) -> Vec<(Function, Option<u32>)> {
        let Some(library) = self.libraries.around(address as usize) else {
            let name = "(code outside of all libraries)".to_owned();
            return vec![(Function { name, library: String::new(), file: None }, None)];
        };
        let file = self.files.entry(library.range.start).or_insert_with(|| SymbolFile::of(library));
        let in_file = address.wrapping_sub(library.bias as u64);
        let mut frames = file.debug_frames(in_file);
        if frames.is_empty() {
            frames.push((file.symbol(in_file), None));
        }
        frames
    }
}

/// Debug information and symbols of one library.
struct SymbolFile {
    name: String,
    loader: Option<Loader>,
    symbols: Vec<Symbol>,
}

struct Symbol {
    start: u64,
    /// Size from the symbol table. Some tables contain 0 for functions written in assembly.
    size: u64,
    name: String,
}

impl SymbolFile {
    fn of(library: &Library) -> Self {
        let path = &library.path;
        let real = std::fs::read_link(path).unwrap_or_else(|_| path.clone());
        let name = real.file_name().unwrap_or(real.as_os_str()).to_string_lossy().into_owned();
        if name == "[vdso]" {
            return Self { name, loader: None, symbols: symbols_in_memory(library) };
        }
        // If the file is unreadable or not an ELF file, addresses have no names.
        let loader = if files::is_regular(path) { Loader::new(path).ok() } else { None };
        Self { name, loader, symbols: symbols_of(path) }
    }

    fn function(&self, name: &str, file: Option<&str>) -> Function {
        Function {
            name: demangle_auto(Cow::Borrowed(name), None).into_owned(),
            library: self.name.clone(),
            file: file.map(str::to_owned),
        }
    }

    fn debug_frames(&self, address: u64) -> Vec<(Function, Option<u32>)> {
        let mut frames = Vec::new();
        let found = self.loader.as_ref().and_then(|loader| loader.find_frames(address).ok());
        let Some(mut found) = found else { return frames };
        while let Ok(Some(frame)) = found.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let Some(name) = name else { continue };
            let (file, line) =
                frame.location.as_ref().map_or((None, None), |at| (at.file, at.line));
            frames.push((self.function(&name, file), line));
        }
        frames
    }

    /// Returns the symbol that contains the address, or `library+0x123` if there is none.
    fn symbol(&self, address: u64) -> Function {
        let next = self.symbols.partition_point(|symbol| symbol.start <= address);
        let symbol = next.checked_sub(1).map(|index| &self.symbols[index]);
        match symbol.filter(|symbol| symbol.size == 0 || address - symbol.start < symbol.size) {
            Some(symbol) => self.function(&symbol.name, None),
            None => Function {
                name: format!("{}+{address:#x}", self.name),
                library: self.name.clone(),
                file: None,
            },
        }
    }
}

fn symbols_of(path: &Path) -> Vec<Symbol> {
    let Ok(file) = files::open_regular(path) else { return Vec::new() };
    // SAFETY: the file is a library that the program has loaded. It is not changed in place while
    // it is in use, because that would also break the program.
    let Ok(map) = (unsafe { Mmap::map(&file) }) else { return Vec::new() };
    symbols_in(&map)
}

fn symbols_in_memory(library: &Library) -> Vec<Symbol> {
    const PAGE: usize = 4096;
    let length = (library.range.end - library.range.start).next_multiple_of(PAGE);
    // SAFETY: the system has mapped whole readable pages for the vDSO. It never unmaps or changes
    // them.
    let bytes = unsafe { std::slice::from_raw_parts(library.range.start as *const u8, length) };
    symbols_in(bytes)
}

/// Returns the functions of both symbol tables, sorted by address.
fn symbols_in(bytes: &[u8]) -> Vec<Symbol> {
    let Ok(object) = object::File::parse(bytes) else { return Vec::new() };
    let symbols = object.symbols().chain(object.dynamic_symbols());
    let functions = symbols.filter(|symbol| {
        symbol.is_definition() && symbol.kind() == SymbolKind::Text && symbol.address() != 0
    });
    let mut functions: Vec<Symbol> = functions
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?.to_owned();
            Some(Symbol { start: symbol.address(), size: symbol.size(), name })
        })
        .collect();
    // If several symbols have the same address, the largest one is kept, and among equal ones the
    // first in alphabetical order. The result is therefore always the same.
    functions.sort_by(|one, other| {
        (one.start, other.size, &one.name).cmp(&(other.start, one.size, &other.name))
    });
    functions.dedup_by_key(|symbol| symbol.start);
    functions
}
