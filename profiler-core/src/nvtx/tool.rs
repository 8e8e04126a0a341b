//! NVTX, version 3: the way to whoever watches the program.
//!
//! A tool such as Nsight Systems names a library in the environment. At the first use it is loaded
//! and given tables with places for functions, in which it puts its own; what it leaves out is not
//! called. Laid out as NVIDIA's headers do (`nvToolsExt.h` and `nvtxDetail/nvtxTypes.h` of NVTX 3,
//! Apache-2.0 with LLVM exceptions). There is nothing to link with, and nothing to install.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::dynamic_library::{Error, Library};
use mlprof_events::environment::variable;
use mlprof_events::forking::made_once;

/// Where a tool names its library.
pub(super) const INJECTION_VARIABLE: &str = if cfg!(target_pointer_width = "64") {
    "NVTX_INJECTION64_PATH"
} else {
    "NVTX_INJECTION32_PATH"
};

/// Why nobody watches.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAttached {
    /// No tool has named a library.
    #[error(
        "no tool listens to NVTX ({INJECTION_VARIABLE} is not set): run the program under a tool \
         that does, such as `nsys profile --trace=nvtx`"
    )]
    NoTool,
    /// The library cannot be loaded.
    #[error("the tool's library for NVTX cannot be loaded: {0}")]
    Library(String),
    /// The library has loaded and wants nothing.
    #[error("the tool's library for NVTX has declined")]
    Declined,
}

mlprof_events::debug_as_display!(NotAttached);

/// The version of the interface.
const VERSION: u16 = 3;

/// What one range is, or one mark.
#[repr(C)]
struct EventAttributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(std::mem::offset_of!(EventAttributes, payload) == 24);
    assert!(std::mem::offset_of!(EventAttributes, message) == 40);
    assert!(size_of::<EventAttributes>() == 48);
};

const PAYLOAD_NONE: i32 = 0;
const PAYLOAD_UNSIGNED_64: i32 = 1;
const MESSAGE_ASCII: i32 = 1;
const MESSAGE_REGISTERED: i32 = 3;

/// A place for one of a tool's functions.
type Place = AtomicPtr<c_void>;

/// How many functions the largest module has, with one that is never used before them.
const MOST: usize = 16;

/// The modules of functions by their numbers, and how many places each has: 1 core, 2 CUDA, 3 OpenCL,
/// 4 CUDA's runtime, 5 domains, 6 synchronisation.
const SIZES: [usize; 7] = [0, 16, 9, 15, 7, 16, 7];
const DOMAINS: usize = 5;

/// Functions of domains by their numbers.
mod function {
    pub const RANGE_START: usize = 2;
    pub const RANGE_END: usize = 3;
    pub const RANGE_PUSH: usize = 4;
    pub const RANGE_POP: usize = 5;
    pub const NAME_CATEGORY: usize = 8;
    pub const REGISTER_STRING: usize = 10;
    pub const DOMAIN_CREATE: usize = 12;
}

static PLACES: [[Place; MOST]; SIZES.len()] =
    [const { [const { Place::new(ptr::null_mut()) }; MOST] }; SIZES.len()];

/// What a tool gets: for each module the addresses of its places, after one that is null, and one
/// more null at the end.
struct Tables([[*const Place; MOST + 1]; SIZES.len()]);

// SAFETY: addresses of statics that any thread may write to.
unsafe impl Sync for Tables {}

static TABLES: Tables = Tables({
    let mut tables = [[ptr::null(); MOST + 1]; SIZES.len()];
    let mut module = 1;
    while module < SIZES.len() {
        let mut number = 1;
        while number < SIZES[module] {
            tables[module][number] = &raw const PLACES[module][number];
            number += 1;
        }
        module += 1;
    }
    tables
});

extern "C" fn module_functions(
    module: c_uint,
    table: *mut *const *const Place,
    size: *mut c_uint,
) -> c_int {
    let module = module as usize;
    if module == 0 || module >= SIZES.len() {
        return 0;
    }
    // SAFETY: a tool passes null for what it does not want to know, and else where to put it.
    unsafe {
        if let Some(table) = table.as_mut() {
            *table = TABLES.0[module].as_ptr();
        }
        if let Some(size) = size.as_mut() {
            *size = SIZES[module] as c_uint;
        }
    }
    1
}

extern "C" fn set_tools_version(_version: u32) {}

#[repr(C)]
struct Callbacks {
    size: usize,
    module_functions: extern "C" fn(c_uint, *mut *const *const Place, *mut c_uint) -> c_int,
}

#[repr(C)]
struct VersionInfo {
    size: usize,
    version: u32,
    reserved: u32,
    set_tools_version: extern "C" fn(u32),
}

static CALLBACKS: Callbacks = Callbacks { size: size_of::<Callbacks>(), module_functions };
static VERSION_INFO: VersionInfo = VersionInfo {
    size: size_of::<VersionInfo>(),
    version: VERSION as u32,
    reserved: 0,
    set_tools_version,
};

extern "C" fn export_table(number: u32) -> *const c_void {
    match number {
        1 => ptr::from_ref(&CALLBACKS).cast(),
        3 => ptr::from_ref(&VERSION_INFO).cast(),
        _ => ptr::null(),
    }
}

type GetExportTable = extern "C" fn(u32) -> *const c_void;
type Initialize = unsafe extern "C" fn(GetExportTable) -> c_int;

type Domain = *mut c_void;
type Create = unsafe extern "C" fn(*const c_char) -> Domain;
type NameCategory = unsafe extern "C" fn(Domain, u32, *const c_char);
type Register = unsafe extern "C" fn(Domain, *const c_char) -> *mut c_void;
type Push = unsafe extern "C" fn(Domain, *const EventAttributes) -> c_int;
type Pop = unsafe extern "C" fn(Domain) -> c_int;
type Start = unsafe extern "C" fn(Domain, *const EventAttributes) -> u64;
type End = unsafe extern "C" fn(Domain, u64);

/// The tool's function of domains with this number, if it has one.
///
/// # Safety
///
/// `F` is the function's type.
unsafe fn of_tool<F: Copy>(number: usize) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let address = PLACES[DOMAINS][number].load(Ordering::Acquire);
    // SAFETY: an address that the tool has put where a function of this type belongs.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// A tool that listens.
pub(super) struct Tool {
    domain: Domain,
    name_category: Option<NameCategory>,
    register: Option<Register>,
    push: Option<Push>,
    pop: Option<Pop>,
    start: Option<Start>,
    end: Option<End>,
}

// SAFETY: NVTX's functions may be called by any thread.
unsafe impl Send for Tool {}
// SAFETY: as above.
unsafe impl Sync for Tool {}

/// A text as a tool knows it. Good for the rest of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name(pub(super) *mut c_void);

/// What kind of range, and what it is called.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) category: u32,
    pub(super) name: Name,
}

impl Tool {
    /// The tool that listens to this process. Looked for once.
    pub(super) fn get() -> Result<&'static Self, NotAttached> {
        static TOOL: OnceLock<Result<Tool, NotAttached>> = OnceLock::new();
        made_once(&TOOL, Self::attach).as_ref().map_err(Clone::clone)
    }

    fn attach() -> Result<Self, NotAttached> {
        let path = variable(INJECTION_VARIABLE).filter(|path| !path.is_empty());
        let path = path.ok_or(NotAttached::NoTool)?;
        let cannot = |error: Error| NotAttached::Library(error.to_string());
        // SAFETY: the user has named the library for this purpose.
        let library = unsafe { Library::new(path) }.map_err(cannot)?;
        // SAFETY: the function of this name has this type.
        let initialize = unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") };
        // SAFETY: it is given what it is to be given.
        let is_attached = unsafe { initialize.map_err(cannot)?(export_table) } != 0;
        if !is_attached {
            return Err(NotAttached::Declined);
        }
        // Its functions are called until the process ends.
        std::mem::forget(library);
        Ok(Self::with_functions())
    }

    fn with_functions() -> Self {
        // SAFETY: each type is that of the function with this number.
        unsafe {
            let create = of_tool::<Create>(function::DOMAIN_CREATE);
            Self {
                domain: create.map_or(ptr::null_mut(), |create| create(c"mlprof".as_ptr())),
                name_category: of_tool::<NameCategory>(function::NAME_CATEGORY),
                register: of_tool::<Register>(function::REGISTER_STRING),
                push: of_tool::<Push>(function::RANGE_PUSH),
                pop: of_tool::<Pop>(function::RANGE_POP),
                start: of_tool::<Start>(function::RANGE_START),
                end: of_tool::<End>(function::RANGE_END),
            }
        }
    }

    /// Names a category, which ranges refer to by its number.
    pub(super) fn name_category(&self, number: u32, name: &CStr) {
        if let Some(name_category) = self.name_category {
            // SAFETY: a text that ends in a zero.
            unsafe { name_category(self.domain, number, name.as_ptr()) };
        }
    }

    /// Tells the tool of a text once, so that ranges need only refer to it.
    pub(super) fn name(&self, text: &str) -> Name {
        // A text of C ends at its first zero.
        let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
        match self.register {
            // SAFETY: a text that ends in a zero; the tool keeps a copy.
            Some(register) => Name(unsafe { register(self.domain, text.as_ptr()) }),
            None => Name(text.into_raw().cast()),
        }
    }

    fn attributes(&self, range: Range, payload: Option<u64>) -> EventAttributes {
        EventAttributes {
            version: VERSION,
            size: size_of::<EventAttributes>() as u16,
            category: range.category,
            color_type: 0,
            color: 0,
            payload_type: if payload.is_some() { PAYLOAD_UNSIGNED_64 } else { PAYLOAD_NONE },
            reserved: 0,
            payload: payload.unwrap_or(0),
            message_type: if self.register.is_some() { MESSAGE_REGISTERED } else { MESSAGE_ASCII },
            message: range.name.0,
        }
    }

    /// A range begins on the calling thread, inside those that are open on it.
    pub(super) fn push(&self, range: Range, payload: Option<u64>) {
        if let Some(push) = self.push {
            // SAFETY: the attributes are whole, and the name is this tool's.
            unsafe { push(self.domain, &self.attributes(range, payload)) };
        }
    }

    /// The innermost range of the calling thread ends.
    pub(super) fn pop(&self) {
        if let Some(pop) = self.pop {
            // SAFETY: any thread may call it; one without ranges is told so.
            unsafe { pop(self.domain) };
        }
    }

    /// A range begins that may overlap others, and end on another thread.
    pub(super) fn start(&self, range: Range, payload: Option<u64>) -> u64 {
        self.start.map_or(0, |start| {
            // SAFETY: as for `push`.
            unsafe { start(self.domain, &self.attributes(range, payload)) }
        })
    }

    /// It ends.
    pub(super) fn end(&self, range: u64) {
        if let Some(end) = self.end {
            // SAFETY: a range that `start` has given.
            unsafe { end(self.domain, range) };
        }
    }
}
