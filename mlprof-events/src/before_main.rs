//! Functions that run before `main`, for what becomes known without a line in the program.

/// Has a function (`fn()`) called before `main`: when the program, or the library that this crate is part
/// of, is loaded. On Linux, macOS and Windows. A panic of the function is printed and goes no further.
///
/// rustc names what is `#[used]` in the link of every program and library that its crate is part of, so
/// that its object file is linked even if nothing else of it is.
///
/// # Safety
///
/// The caller says `unsafe`, and promises that the function does only what may be done before `main`:
/// libraries are initialised before the programs that use them, in the order in which
/// they depend on each other, but nothing says in which order the functions of one of them are called.
/// Rust's standard library can be used for files, threads, locks and memory.
///
/// With `first` the function is called before those without it that are part of the same program or library: it prepares
/// something for them. On Linux; elsewhere among them.
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
/// // SAFETY: stores one number.
/// mlprof_events::before_main!(unsafe note);
///
/// # fn fails() {
/// #     panic!("on purpose: it ends no program");
/// # }
/// # // SAFETY: it only panics.
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
        // Numbers up to 100 are the system's own: what those prepare is there.
        $crate::before_main!(unsafe $function, ".init_array.00101");
    };
    (unsafe $function:path) => {
        $crate::before_main!(unsafe $function, ".init_array");
    };
    (unsafe $function:path, $linux_section:tt) => {
        // SAFETY: all three sections are lists of addresses of functions of the C calling convention,
        // which are called one after the other before `main`; this adds one. Linux's passes it arguments
        // that it does not take, as C allows and the platform's convention makes harmless. What the
        // function does is what the caller promises.
        const _: () = {
            extern "C" fn contained() {
                $crate::files::occupy_standard_descriptors();
                // The program goes on without what the function would have done.
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
