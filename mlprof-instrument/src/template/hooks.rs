// Text for the root of an instrumented crate: a module with the functions that hooks call. Comments
// and line breaks are removed, because the text must fit on an existing line.
//
// The text compiles in every edition since 2015 and without std. It uses full paths, because the
// crate may define the same names or have no prelude. `::core::` is replaced by `__core::`.

#[allow(warnings, unsafe_code, clippy::all, clippy::pedantic, clippy::restriction)]
// The group `warnings` does not cover lints that are allowed by default. These are allowed
// explicitly, as far as they apply.
#[allow(missing_debug_implementations, missing_docs, single_use_lifetimes, trivial_casts)]
#[allow(trivial_numeric_casts, unreachable_pub, unused_lifetimes, unused_qualifications)]
#[allow(unused_results)]
#[doc(hidden)]
mod __mlprof {
    pub extern crate core as __core;

    // Static data of an instrumented function. mlprof-core's `spliced/` defines the same type.
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

    // SAFETY: the raw pointers refer to static strings that are never written. All other fields are
    // atomic or immutable.
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
        // SAFETY: the runtime library defines this static with the same type, and only writes it
        // atomically.
        unsafe { MLPROF_WANTED.load(::core::sync::atomic::Ordering::Relaxed) }
    }

    // Returns true if a name that a macro generates is one of the selected names.
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

    // Guard of an open call. It must be dropped on the thread that created it.
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
                // SAFETY: the site is static, and `mlprof_open` returned `opened` for it.
                unsafe { mlprof_close(self.site, self.opened) }
            }
        }
    }

    // Ends a call before the recursive tail call of the function. The compiler turns that call into
    // a loop only if no work remains after it.
    #[inline(always)]
    pub fn close(_: Guard) {}

    #[inline(always)]
    pub fn open(site: &'static Site, bit: u32) -> Guard {
        let is_wanted = wanted() & bit != 0;
        Guard::new(site, if is_wanted { open_now(site) } else { 0 })
    }

    #[inline(never)]
    fn open_now(site: &'static Site) -> u64 {
        // SAFETY: the site is static. There are no words, so their pointer may be null.
        unsafe { mlprof_open(site, ::core::ptr::null(), 0) }
    }

    // Future with measured polls. The first poll is recorded as a call with the first site, and
    // later polls with the second site.
    pub struct Polled<F> {
        sites: &'static [Site; 2],
        bit: u32,
        goes_on: bool,
        future: F,
    }

    #[inline(always)]
    pub fn poll<F: ::core::future::Future>(
        sites: &'static [Site; 2],
        bit: u32,
        future: F,
    ) -> Polled<F> {
        Polled { sites: sites, bit: bit, goes_on: false, future: future }
    }

    impl<F: ::core::future::Future> ::core::future::Future for Polled<F> {
        type Output = F::Output;

        #[inline]
        fn poll(
            self: ::core::pin::Pin<&mut Self>,
            context: &mut ::core::task::Context<'_>,
        ) -> ::core::task::Poll<F::Output> {
            // SAFETY: the future is never moved out of `this`. No other field is pinned, and the
            // type has no `Drop` implementation.
            let this = unsafe { self.get_unchecked_mut() };
            let _guard = open(&this.sites[this.goes_on as usize], this.bit);
            // If the first poll was not measured, a later poll counts as the call.
            this.goes_on = this.goes_on || _guard.opened != 0;
            // SAFETY: `this` is pinned and the future is never moved out of it, so the future is
            // pinned as well.
            let future = unsafe { ::core::pin::Pin::new_unchecked(&mut this.future) };
            future.poll(context)
        }
    }

    // Provides the type of an async function's value in a branch that is never taken.
    #[cold]
    pub fn never<T>() -> T {
        loop {}
    }
    /*TENSORS*/
    /*LINES*/
}
