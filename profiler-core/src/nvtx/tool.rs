//! Interface to an attached tool, through NVTX version 3.
//!
//! A tool such as Nsight Systems sets the path of a library in the environment. On first use,
//! mlprof loads that library and passes it tables of function slots. The tool fills these slots,
//! and mlprof never calls a slot that stays empty. The layout follows NVIDIA's headers
//! (`nvToolsExt.h` and `nvtxDetail/nvtxTypes.h` of NVTX 3, Apache-2.0 with LLVM exceptions). No
//! library needs to be linked or installed.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::dynamic_library::{Error, Library};
use mlprof_events::environment::variable;
use mlprof_events::forking::made_once;

/// Environment variable with the path of the tool's library.
pub(super) const INJECTION_VARIABLE: &str = if cfg!(target_pointer_width = "64") {
    "NVTX_INJECTION64_PATH"
} else {
    "NVTX_INJECTION32_PATH"
};

/// Reason why no tool is attached.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAttached {
    /// No tool has set the environment variable.
    #[error(
        "cannot emit NVTX: no tool is attached ({INJECTION_VARIABLE} is not set); run the program \
         under a tool such as `nsys profile --trace=nvtx`"
    )]
    NoTool,
    /// The library cannot be loaded.
    #[error("cannot load the tool's NVTX library: {0}")]
    Library(String),
    /// The library was loaded but declined to attach.
    #[error("cannot attach to NVTX: the tool's library declined")]
    Declined,
}

mlprof_events::debug_as_display!(NotAttached);

/// Version of the interface.
const VERSION: u16 = 3;

/// Attributes of one range or mark.
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

/// Slot for one function of the tool.
type Place = AtomicPtr<c_void>;

/// Number of slots in the largest module, including the unused slot 0.
const MOST: usize = 16;

/// Number of slots per module, indexed by module number: 1 core, 2 CUDA, 3 OpenCL, 4 CUDA runtime,
/// 5 domains, 6 synchronisation.
const SIZES: [usize; 7] = [0, 16, 9, 15, 7, 16, 7];
const DOMAINS: usize = 5;

/// Slot numbers of the domain functions.
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

/// Tables for the tool. Each module has a null entry, the addresses of its slots, and a final null.
struct Tables([[*const Place; MOST + 1]; SIZES.len()]);

// SAFETY: the addresses refer to statics of atomics, which any thread may access.
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
    // SAFETY: the tool passes null, or a valid pointer to a location for the result.
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

/// Returns the tool's domain function in this slot, or `None` if the slot is empty.
///
/// # Safety
///
/// `F` must be the type of the function in this slot.
unsafe fn of_tool<F: Copy>(number: usize) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let address = PLACES[DOMAINS][number].load(Ordering::Acquire);
    // SAFETY: the assertion checks that both types have the same size. The tool has stored a
    // function in this slot, and the caller guarantees that its type is `F`.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// An attached tool.
pub(super) struct Tool {
    domain: Domain,
    name_category: Option<NameCategory>,
    register: Option<Register>,
    push: Option<Push>,
    pop: Option<Pop>,
    start: Option<Start>,
    end: Option<End>,
}

// SAFETY: NVTX functions may be called on any thread, so the domain pointer is also valid on any
// thread.
unsafe impl Send for Tool {}
// SAFETY: NVTX functions may be called on several threads concurrently.
unsafe impl Sync for Tool {}

/// Text registered with a tool, valid until the process ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name(pub(super) *mut c_void);

/// Category and name of a range.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) category: u32,
    pub(super) name: Name,
}

impl Tool {
    /// Returns the tool attached to this process. The search happens once.
    pub(super) fn get() -> Result<&'static Self, NotAttached> {
        static TOOL: OnceLock<Result<Tool, NotAttached>> = OnceLock::new();
        made_once(&TOOL, Self::attach).as_ref().map_err(Clone::clone)
    }

    fn attach() -> Result<Self, NotAttached> {
        let path = variable(INJECTION_VARIABLE).filter(|path| !path.is_empty());
        let path = path.ok_or(NotAttached::NoTool)?;
        let cannot = |error: Error| NotAttached::Library(error.to_string());
        // SAFETY: the user has set this path to the NVTX library of a tool, and its initialisers
        // are expected to be sound.
        let library = unsafe { Library::new(path) }.map_err(cannot)?;
        // SAFETY: NVTX defines `InitializeInjectionNvtx2` with this type.
        let initialize = unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") };
        // SAFETY: the NVTX interface defines `export_table` as the argument of this function.
        let is_attached = unsafe { initialize.map_err(cannot)?(export_table) } != 0;
        // The tool's functions are called until the process ends, so the library must stay loaded.
        // A tool that declines may have started threads or kept pointers into itself.
        std::mem::forget(library);
        if is_attached { Ok(Self::with_functions()) } else { Err(NotAttached::Declined) }
    }

    fn with_functions() -> Self {
        // SAFETY: each type matches the function of its slot in the NVTX headers. `create` receives
        // a NUL-terminated string.
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

    /// Names a category. Ranges refer to the category by number.
    pub(super) fn name_category(&self, number: u32, name: &CStr) {
        if let Some(name_category) = self.name_category {
            // SAFETY: `name` is a NUL-terminated string that outlives the call.
            unsafe { name_category(self.domain, number, name.as_ptr()) };
        }
    }

    /// Registers a text with the tool once, so that ranges only need to refer to it.
    pub(super) fn name(&self, text: &str) -> Name {
        // Zero bytes are replaced, because a C string would end at the first one.
        let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
        match self.register {
            // SAFETY: `text` is a NUL-terminated string that outlives the call. The tool makes its
            // own copy.
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

    /// Begins a range on the calling thread, nested inside its open ranges.
    pub(super) fn push(&self, range: Range, payload: Option<u64>) {
        if let Some(push) = self.push {
            // SAFETY: the attributes are fully initialised and outlive the call. Their message is a
            // name registered with this tool, or a leaked C string.
            unsafe { push(self.domain, &self.attributes(range, payload)) };
        }
    }

    /// Ends the innermost range of the calling thread.
    pub(super) fn pop(&self) {
        if let Some(pop) = self.pop {
            // SAFETY: the function may be called on any thread. Without open ranges, it only
            // returns an error code.
            unsafe { pop(self.domain) };
        }
    }

    /// Begins a range that may overlap others and end on another thread.
    pub(super) fn start(&self, range: Range, payload: Option<u64>) -> u64 {
        self.start.map_or(0, |start| {
            // SAFETY: the attributes are fully initialised and outlive the call. Their message is a
            // name registered with this tool, or a leaked C string.
            unsafe { start(self.domain, &self.attributes(range, payload)) }
        })
    }

    /// Ends a range from [`start`](Self::start).
    pub(super) fn end(&self, range: u64) {
        if let Some(end) = self.end {
            // SAFETY: `range` was returned by `start`.
            unsafe { end(self.domain, range) };
        }
    }
}
