// What is put into the root of a spliced crate: a module, and the macro that every spliced function
// begins with. Comments and line breaks are taken out of it, for it has to fit on a line that exists.
//
// It compiles in every edition since 2015 and without std; full paths everywhere, since the crate may
// have names of its own or no prelude. `::core::` is replaced by what `__core` stands for.

#[allow(warnings, unsafe_code, clippy::all, clippy::pedantic, clippy::restriction)]
#[doc(hidden)]
mod __mlprof {
    pub extern crate core as __core;

    // The same text is in profiler-core's spliced/: what a spliced function tells of itself.
    #[repr(C)]
    pub struct Site {
        action: ::core::sync::atomic::AtomicU32,
        kind: u32,
        line: u32,
        name: *const u8,
        name_length: usize,
        file: *const u8,
        file_length: usize,
    }

    // SAFETY: the pointers are to static text that is never written to.
    unsafe impl ::core::marker::Sync for Site {}

    impl Site {
        pub const fn new(kind: u32, name: &'static str, file: &'static str, line: u32) -> Self {
            Site {
                action: ::core::sync::atomic::AtomicU32::new(0),
                kind: kind,
                line: line,
                name: name.as_ptr(),
                name_length: name.len(),
                file: file.as_ptr(),
                file_length: file.len(),
            }
        }
    }

    unsafe extern "C" {
        static MLPROF_WANTED: ::core::sync::atomic::AtomicU32;
        fn mlprof_open(site: *const Site, words: *const i64, count: usize) -> u64;
        fn mlprof_close(site: *const Site, opened: u64);
    }

    #[inline(always)]
    pub fn wanted() -> u32 {
        // SAFETY: the runtime library defines it, and never writes to it but atomically.
        unsafe { MLPROF_WANTED.load(::core::sync::atomic::Ordering::Relaxed) }
    }

    // The bit of MLPROF_WANTED that a kind of site asks for.
    pub const fn bit(kind: u32) -> u32 {
        match kind {
            0 => 2,
            1 | 2 => 4,
            _ => 1,
        }
    }

    // Whether a name that a macro makes is one of those that are selected.
    pub const fn is_one_of(name: &str, names: &[&str]) -> bool {
        let mut place = 0;
        while place < names.len() {
            if is_same(name.as_bytes(), names[place].as_bytes()) {
                return true;
            }
            place += 1;
        }
        false
    }

    const fn is_same(one: &[u8], other: &[u8]) -> bool {
        if one.len() != other.len() {
            return false;
        }
        let mut place = 0;
        while place < one.len() {
            if one[place] != other[place] {
                return false;
            }
            place += 1;
        }
        true
    }

    // Open as long as it lives; on the thread that opened it.
    pub struct Guard {
        site: &'static Site,
        opened: u64,
        stays: ::core::marker::PhantomData<*const ()>,
    }

    impl Guard {
        #[inline(always)]
        fn new(site: &'static Site, opened: u64) -> Guard {
            Guard { site: site, opened: opened, stays: ::core::marker::PhantomData }
        }
    }

    impl ::core::ops::Drop for Guard {
        #[inline(always)]
        fn drop(&mut self) {
            if self.opened != 0 {
                // SAFETY: `opened` is what mlprof_open gave for this site.
                unsafe { mlprof_close(self.site, self.opened) }
            }
        }
    }

    #[inline(always)]
    pub fn open(site: &'static Site, bit: u32) -> Guard {
        let is_wanted = wanted() & bit != 0;
        Guard::new(site, if is_wanted { open_now(site) } else { 0 })
    }

    #[inline(never)]
    fn open_now(site: &'static Site) -> u64 {
        // SAFETY: a static site, and no words.
        unsafe { mlprof_open(site, ::core::ptr::null(), 0) }
    }

    // A future of which every poll is measured.
    pub struct Polled<F> {
        site: &'static Site,
        future: F,
    }

    #[inline(always)]
    pub fn poll<F: ::core::future::Future>(site: &'static Site, future: F) -> Polled<F> {
        Polled { site: site, future: future }
    }

    impl<F: ::core::future::Future> ::core::future::Future for Polled<F> {
        type Output = F::Output;

        #[inline]
        fn poll(
            self: ::core::pin::Pin<&mut Self>,
            context: &mut ::core::task::Context<'_>,
        ) -> ::core::task::Poll<F::Output> {
            let _guard = open(self.site, bit(self.site.kind));
            // SAFETY: the future is never moved out of its place; nothing else of it is pinned, and
            // it has no Drop of its own.
            let future = unsafe { self.map_unchecked_mut(|polled| &mut polled.future) };
            future.poll(context)
        }
    }

    // Stands for the value of an async function in a branch that is never taken, to tell its type.
    #[cold]
    pub fn never<T>() -> T {
        loop {}
    }
    /*TENSORS*/
    /*LINES*/
}
/*MODULE ENDS*/

#[allow(unused_macros)]
macro_rules! __mlprof_site {
    ($kind:expr, $name:expr, $line:expr) => {{
        static SITE: $crate::__mlprof::Site =
            $crate::__mlprof::Site::new($kind, $name, ::core::file!(), $line);
        &SITE
    }};
}

#[allow(unused_macros)]
macro_rules! __mlprof {
    ($kind:expr, $name:expr, $line:expr) => {
        let _mlprof_guard = $crate::__mlprof::open(
            __mlprof_site!($kind, $name, $line),
            const { $crate::__mlprof::bit($kind) },
        );
    };
    ($kind:expr, $name:expr, $line:expr, $made:expr, [$($chosen:expr),*]) => {
        let _mlprof_guard = $crate::__mlprof::open(
            __mlprof_site!($kind, $name, $line),
            const {
                if $crate::__mlprof::is_one_of($made, &[$($chosen),*]) {
                    $crate::__mlprof::bit($kind)
                } else {
                    0
                }
            },
        );
    };
    /*MACROS*/
}
