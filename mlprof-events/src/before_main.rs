//! Functions that run before `main`, so that the program needs no call to set them up.

/// Registers a function (`fn()`) that runs before `main`, when the program or the library that
/// contains this crate is loaded. Supported on Linux, macOS and Windows. If the function panics,
/// the panic is printed and contained.
///
/// rustc lists `#[used]` statics when it links a program or library that contains the crate. The
/// object file is therefore linked even if the rest of it is unused.
///
/// # Safety
///
/// The caller writes `unsafe` and promises that the function does only what is allowed before
/// `main`. Libraries are initialised before the programs and libraries that depend on them. The
/// order of the functions inside one program or library is not specified. The function may use
/// Rust's standard library for files, threads, locks and memory.
///
/// With `first`, the function runs before functions without `first` in the same program or library,
/// so that it can prepare something for them. This holds on Linux only; on other systems the order
/// is not specified.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// static WAS_HERE: AtomicBool = AtomicBool::new(false);
///
/// fn note() {
///     WAS_HERE.store(true, Ordering::Relaxed);
/// }
///
/// // SAFETY: `note` only stores to an atomic, which is allowed before `main`.
/// mlprof_events::before_main!(unsafe note);
///
/// # fn fails() {
/// #     panic!("deliberate: the program must not end");
/// # }
/// # // SAFETY: `fails` only panics, and the panic is contained.
/// # mlprof_events::before_main!(unsafe fails);
/// #
/// fn main() {
///     # #[cfg(any(target_os = "linux", target_os = "macos", windows))]
///     assert!(WAS_HERE.load(Ordering::Relaxed));
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! before_main {
    (unsafe first $function:path) => {
        // Priorities up to 100 are reserved for the system, so the work of those functions is
        // complete by then.
        $crate::before_main!(unsafe $function, ".init_array.00101");
    };
    (unsafe $function:path) => {
        $crate::before_main!(unsafe $function, ".init_array");
    };
    (unsafe $function:path, $linux_section:tt) => {
        // SAFETY: each of the three sections is an array of pointers to functions of the C calling
        // convention. The loader calls them one after the other before `main`. The static adds one
        // pointer of that type. Linux passes arguments that the function does not declare, which is
        // harmless in the C calling convention of these platforms. The caller of the macro
        // guarantees that the function may run before `main`.
        const _: () = {
            extern "C" fn contained() {
                $crate::files::occupy_standard_descriptors();
                // After a panic the program continues without the work of the function.
                let _ = $crate::panics::contain(|| $function());
            }
            #[used]
            #[cfg_attr(target_os = "linux", unsafe(link_section = $linux_section))]
            #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
            #[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
            static BEFORE_MAIN: extern "C" fn() = contained;
        };
    };
}
