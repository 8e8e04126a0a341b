// What is put into the root of a spliced crate: a module, whose functions every spliced function calls.
// Comments and line breaks are taken out of it, for it has to fit on a line that exists.
//
// It compiles in every edition since 2015 and without std; full paths everywhere, since the crate may
// have names of its own or no prelude. `::core::` is replaced by what `__core` stands for.

#[allow(warnings, unsafe_code, clippy::all, clippy::pedantic, clippy::restriction)]
// Not all that are allowed by default; what is said of the rest is not handed on.
#[allow(missing_debug_implementations, missing_docs, single_use_lifetimes, trivial_casts)]
#[allow(trivial_numeric_casts, unreachable_pub, unused_lifetimes, unused_qualifications)]
#[allow(unused_results)]
#[doc(hidden)]
mod __mlprof {
    pub extern crate core as __core;

    // The same text is in mlprof-core's spliced/: what a spliced function tells of itself.
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

    // The end of a call, before the one that it ends in: that of the function itself, of which the
    // compiler makes a loop if nothing is left to do after it.
    #[inline(always)]
    pub fn close(_: Guard) {}

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

    // A future of which every poll is measured: the first one as a call, by the first of its sites, and
    // those after it by the second.
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
            // SAFETY: the future is never moved out of its place; nothing else of it is pinned, and
            // it has no Drop of its own.
            let this = unsafe { self.get_unchecked_mut() };
            let _guard = open(&this.sites[this.goes_on as usize], this.bit);
            // A call that was not measured when it began is none that goes on.
            this.goes_on = this.goes_on || _guard.opened != 0;
            // SAFETY: as above.
            let future = unsafe { ::core::pin::Pin::new_unchecked(&mut this.future) };
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
