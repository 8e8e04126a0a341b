//! Information about the process that the handler needs: its code with unwinding tables, and the
//! location of stacks.

use std::ffi::{CStr, CString, OsStr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use framehop::{
    ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder, UnwinderNative,
};

use crate::SamplerSettings;
use mlprof_events::forking::apart_from_forks;

/// Minimum number of consecutive ticks of waiting after which a thread is idle. It must also have
/// waited for 20 ms.
const IDLE_AFTER: u32 = 20;

pub(super) type Tables = UnwinderNative<&'static [u8], MustNotAllocateDuringUnwind>;

/// Snapshot of the process for the handler. It does not change once the handler can see it.
pub(super) struct UnwindSnapshot {
    pub(super) tables: Tables,
    /// Readable code, sorted by address.
    code: Vec<Range<usize>>,
    /// Writable memory, sorted by address. It contains the stacks of all threads except the first.
    writable: Vec<Range<usize>>,
    /// The process's first stack: from the lowest address to which it may grow, to its end.
    main_stack: Range<usize>,
    pub(super) walks_frame_pointers: bool,
    pub(super) idle_after: u32,
    /// Period of the timers in nanoseconds.
    pub(super) period: u64,
}

/// Default minimum distance between a growing stack and the mapping below it, which the system
/// enforces.
const STACK_GUARD_GAP: usize = 1 << 20;

impl UnwindSnapshot {
    /// Returns the writable mapping that contains `address`, such as a thread's stack. The handler
    /// calls it.
    pub(super) fn writable_around(&self, address: usize) -> Option<&Range<usize>> {
        around(&self.writable, address)
    }

    pub(super) fn is_code(&self, bytes: Range<usize>) -> bool {
        around(&self.code, bytes.start).is_some_and(|code| bytes.end <= code.end)
    }

    pub(super) fn main_stack(&self) -> Range<usize> {
        self.main_stack.clone()
    }
}

fn around(ranges: &[Range<usize>], address: usize) -> Option<&Range<usize>> {
    let index = ranges.partition_point(|range| range.end <= address);
    ranges.get(index).filter(|range| range.contains(&address))
}

/// A shared library, or the program itself. It stays loaded as long as this value exists.
pub(super) struct Library {
    /// Path as known to the loader; `[vdso]` has no file.
    pub(super) path: PathBuf,
    /// Difference between addresses in memory and addresses in the file.
    pub(super) bias: usize,
    pub(super) range: Range<usize>,
    code: Vec<Range<usize>>,
    unwinding: Option<Unwinding>,
    handle: *mut libc::c_void,
}

// SAFETY: the raw handle is only passed to `dlclose`, once and in `drop`. `dlclose` may be called
// on any thread.
unsafe impl Send for Library {}
// SAFETY: no method changes a field through a shared reference, and the handle is used only in
// `drop`.
unsafe impl Sync for Library {}

#[derive(Clone)]
struct Unwinding {
    header: &'static [u8],
    frames: &'static [u8],
}

impl Drop for Library {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is from `dlopen`, is not null, and is closed only here.
            unsafe { libc::dlclose(self.handle) };
        }
    }
}

/// All loaded libraries, with the loader's counters of loaded and unloaded libraries. A clone also
/// keeps the libraries loaded.
#[derive(Default, Clone)]
pub(super) struct Libraries {
    pub(super) libraries: Vec<Arc<Library>>,
    changes: (u64, u64),
}

struct Listed {
    name: CString,
    bias: usize,
    headers: Vec<libc::Elf64_Phdr>,
}

#[derive(Default)]
struct Listing {
    listed: Vec<Listed>,
    changes: (u64, u64),
    only_changes: bool,
}

/// Lists one library; it is the callback for `dl_iterate_phdr`. It must not panic, because that
/// would abort the program.
unsafe extern "C" fn list(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    listing: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: `dl_iterate_phdr` passes a description that is valid during the call. glibc and musl
    // provide all fields that are read here. `listing` is the exclusive pointer that the function
    // `listing` passed in.
    let (info, listing) = unsafe { (&*info, &mut *listing.cast::<Listing>()) };
    listing.changes = (info.dlpi_adds, info.dlpi_subs);
    if listing.only_changes {
        return 1;
    }
    let name = match info.dlpi_name.is_null() {
        true => CString::default(),
        // SAFETY: the pointer is not null and refers to a NUL-terminated string. The string lives
        // as long as its library, which cannot be unloaded during the call.
        false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned(),
    };
    let headers: &[_] = match info.dlpi_phdr.is_null() {
        true => &[],
        // SAFETY: the pointer is not null, and the loader states that `dlpi_phnum` headers start
        // there. They are part of the library, which cannot be unloaded during the call.
        false => unsafe {
            std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
        },
    };
    listing.listed.push(Listed { name, bias: info.dlpi_addr as usize, headers: headers.to_vec() });
    0
}

fn listing(only_changes: bool) -> Listing {
    let mut listing = Listing { only_changes, ..Listing::default() };
    // SAFETY: `list` has the expected signature. Its data pointer refers to a local `Listing` that
    // outlives the call and is not used elsewhere during it.
    //
    // The loader's lock must not be held across a fork, or a forked child would find it taken.
    apart_from_forks(|| unsafe {
        libc::dl_iterate_phdr(Some(list), (&raw mut listing).cast());
    });
    listing
}

impl Libraries {
    /// Returns `true` if libraries were loaded or unloaded since they were listed. *Cost*: a lock
    /// of the loader.
    pub(super) fn have_changed(&self) -> bool {
        listing(true).changes != self.changes
    }

    /// Adds libraries that are not yet known. Known ones are kept.
    pub(super) fn update(&mut self) {
        let listing = listing(false);
        self.changes = listing.changes;
        for listed in listing.listed {
            let is_known = self.libraries.iter().any(|known| known.is(&listed));
            if !is_known && let Some(library) = Library::keep(&listed) {
                self.libraries.push(Arc::new(library));
            }
        }
    }

    pub(super) fn around(&self, address: usize) -> Option<&Library> {
        let mut libraries = self.libraries.iter();
        libraries.find(|library| library.range.contains(&address)).map(Arc::as_ref)
    }

    /// Creates a snapshot with these libraries.
    pub(super) fn snapshot(&self, settings: SamplerSettings) -> UnwindSnapshot {
        let mut tables = Tables::new();
        for library in &self.libraries {
            tables.add_module(library.module());
        }
        let mut code: Vec<_> =
            self.libraries.iter().flat_map(|library| library.code.iter().cloned()).collect();
        code.sort_by_key(|range| range.start);
        let (writable, main_stack) = mappings();
        UnwindSnapshot {
            tables,
            code,
            writable,
            main_stack,
            walks_frame_pointers: settings.frame_pointers,
            idle_after: IDLE_AFTER.max(settings.hz / 50),
            period: settings.period(),
        }
    }
}

impl Library {
    fn is(&self, listed: &Listed) -> bool {
        self.bias == listed.bias && loaded_range(listed).is_some_and(|range| range == self.range)
    }

    /// Keeps a library loaded and finds its unwinding tables. Returns `None` if it has already been
    /// unloaded.
    fn keep(listed: &Listed) -> Option<Self> {
        let range = loaded_range(listed)?;
        // SAFETY: `getauxval` takes a number by value and only reads data that the kernel passed to
        // the process.
        let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        let (path, handle) = if range.contains(&vdso) {
            (PathBuf::from("[vdso]"), std::ptr::null_mut())
        } else if listed.name.is_empty() {
            (PathBuf::from("/proc/self/exe"), std::ptr::null_mut())
        } else {
            // SAFETY: the name is a NUL-terminated string that outlives the call. With
            // `RTLD_NOLOAD` a library that is not loaded is not loaded here either, so no
            // initialiser runs.
            let handle =
                unsafe { libc::dlopen(listed.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            if handle.is_null() {
                return None;
            }
            (PathBuf::from(OsStr::from_bytes(listed.name.as_bytes())), handle)
        };
        let mut library = Self {
            path,
            bias: listed.bias,
            range,
            code: loads(listed, libc::PF_R | libc::PF_X).collect(),
            unwinding: None,
            handle,
        };
        // The tables are read only now, because `handle` keeps the library loaded from here on.
        library.unwinding = Unwinding::of(listed);
        Some(library)
    }

    fn module(&self) -> Module<&'static [u8]> {
        let in_file = |bytes: &[u8]| {
            let start = (bytes.as_ptr() as usize).wrapping_sub(self.bias) as u64;
            start..start + bytes.len() as u64
        };
        let unwinding = self.unwinding.as_ref();
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: unwinding.map(|unwinding| in_file(unwinding.frames)),
            eh_frame: unwinding.map(|unwinding| unwinding.frames),
            eh_frame_hdr_svma: unwinding.map(|unwinding| in_file(unwinding.header)),
            eh_frame_hdr: unwinding.map(|unwinding| unwinding.header),
            ..ExplicitModuleSectionInfo::default()
        };
        let range = self.range.start as u64..self.range.end as u64;
        Module::new(String::new(), range, self.bias as u64, sections)
    }
}

fn loads(listed: &Listed, flags: u32) -> impl Iterator<Item = Range<usize>> + '_ {
    let loads = listed.headers.iter().filter(move |header| {
        header.p_type == libc::PT_LOAD && header.p_flags & flags == flags && header.p_memsz > 0
    });
    loads.map(|header| {
        let start = listed.bias.wrapping_add(header.p_vaddr as usize);
        start..start + header.p_memsz as usize
    })
}

fn loaded_range(listed: &Listed) -> Option<Range<usize>> {
    let start = loads(listed, 0).map(|range| range.start).min()?;
    Some(start..loads(listed, 0).map(|range| range.end).max()?)
}

impl Unwinding {
    /// Finds the unwinding tables of a library that stays loaded.
    fn of(listed: &Listed) -> Option<Self> {
        /// Encoding of a 32-bit distance relative to the field itself, which all compilers use.
        const RELATIVE: u8 = 0x1b;
        let header = listed.headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        let start = listed.bias.wrapping_add(header.p_vaddr as usize);
        let end = start + header.p_memsz as usize;
        let load_of =
            |address: usize| loads(listed, libc::PF_R).find(|load| load.contains(&address));
        if load_of(start)?.end < end || end - start < 8 {
            return None;
        }
        // SAFETY: the range lies in one readable segment, as checked above. The library stays
        // loaded as long as these tables are in use, and the header is not written after loading.
        let header = unsafe { std::slice::from_raw_parts(start as *const u8, end - start) };
        if header[0] != 1 || header[1] != RELATIVE {
            return None;
        }
        let distance = i32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
        let frames = (start + 4).wrapping_add_signed(distance as isize);
        let end = load_of(frames)?.end;
        // SAFETY: the range starts in a readable segment and ends with it. The library stays loaded
        // as long as these tables are in use, and the tables are not written after loading.
        let frames = unsafe { std::slice::from_raw_parts(frames as *const u8, end - frames) };
        Some(Self { header, frames })
    }
}

/// Returns the writable mappings and the first stack.
fn mappings() -> (Vec<Range<usize>>, Range<usize>) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut writable = Vec::new();
    let (mut main_stack, mut below) = (0..0, 0);
    for line in maps.lines() {
        let Some((range, rest)) = mapping(line) else { continue };
        if line.ends_with("[stack]") {
            main_stack = growing_stack(range.clone(), below, stack_limit());
        } else if rest.starts_with("rw") {
            writable.push(range.clone());
        }
        below = range.end;
    }
    (writable, main_stack)
}

/// Returns the range to which the first stack may grow. `mapped` is its current range, `below` is
/// the end of the next lower mapping, and `limit` is its maximum size in bytes.
fn growing_stack(mapped: Range<usize>, below: usize, limit: usize) -> Range<usize> {
    let low = mapped.end.saturating_sub(limit).max(below.saturating_add(STACK_GUARD_GAP));
    low.min(mapped.start)..mapped.end
}

/// Returns the maximum size of the first stack in bytes (`ulimit -s`).
fn stack_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid `rlimit` that outlives the call, and the call writes only to it.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    // An unlimited size is represented by the largest number.
    if answer == 0 { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { 0 }
}

/// Parses a line of `/proc/self/maps`. Returns the address range and the rest of the line.
fn mapping(line: &str) -> Option<(Range<usize>, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let parse = |number| usize::from_str_radix(number, 16).ok();
    Some((parse(start)?..parse(end)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_and_found() {
        let line = "7ffd1000-7ffe2000 rw-p 00000000 00:00 0    [heap]";
        assert_eq!(mapping(line), Some((0x7ffd_1000..0x7ffe_2000, &line[18..])));
        assert_eq!(mapping("no mapping"), None);
        let ranges = [10..20, 20..30, 40..50];
        let start = |address| around(&ranges, address).map(|range| range.start);
        assert_eq!(
            [9, 10, 19, 20, 35, 49, 50].map(start),
            [None, Some(10), Some(10), Some(20), None, Some(40), None]
        );
    }

    #[test]
    fn the_first_stack_ends_where_the_system_lets_it_grow_no_further() {
        let mapped = 0x7fff_0000_0000..0x7fff_0002_1000;
        let low = |below, limit| growing_stack(mapped.clone(), below, limit).start;
        let end = mapped.end;
        assert_eq!(low(0x7ff0_0000_0000, 8 << 20), end - (8 << 20));
        assert_eq!(low(0x7ff0_0000_0000, 64 << 10), mapped.start, "a limit below what it has");
        assert_eq!(low(0x7ff0_0000_0000, usize::MAX), 0x7ff0_0000_0000 + STACK_GUARD_GAP);
        assert_eq!(low(end - (3 << 20), 8 << 20), end - (2 << 20), "a neighbour");
        let (_, main_stack) = mappings();
        assert!(main_stack.len() >= 128 << 10 && main_stack.len() <= stack_limit().max(1 << 20));
    }

    #[test]
    fn this_process_has_code_with_tables_and_a_stack() {
        let mut libraries = Libraries::default();
        libraries.update();
        assert!(!libraries.have_changed());
        let here = mappings as fn() -> _ as usize;
        let own = libraries.around(here).expect("this function is in a library");
        assert!(own.unwinding.is_some(), "{:?}", own.path);
        let snapshot = libraries.snapshot(SamplerSettings::new(1000));
        assert!(snapshot.is_code(here..here + 2) && !snapshot.is_code(16..18));
        let local = 0_u8;
        let on_stack = &raw const local as usize;
        assert!(snapshot.writable_around(on_stack).is_some(), "tests have threads of their own");
        assert!(libraries.libraries.iter().any(|library| library.path.ends_with("[vdso]")));
    }
}
