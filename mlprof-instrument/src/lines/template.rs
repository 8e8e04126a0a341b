// Functions that line-profiled functions call: part of the module that is added to a crate's root.
// Comments must be on their own lines. They are removed, and so are line breaks. mlprof-core's
// `lines/abi.rs` defines the same two types.

    #[repr(C)]
    pub struct LineSite {
        function: ::core::sync::atomic::AtomicPtr<()>,
        first_line: u32,
        last_line: u32,
        source_hash: u64,
        name: *const u8,
        name_length: usize,
        file: *const u8,
        file_length: usize,
        points: *const u32,
        point_count: usize,
    }

    // SAFETY: the raw pointers refer to static data that is never written. All other fields are
    // atomic or immutable.
    unsafe impl ::core::marker::Sync for LineSite {}

    impl LineSite {
        pub const fn new(
            name: &'static str,
            file: &'static str,
            first_line: u32,
            last_line: u32,
            source_hash: u64,
            points: &'static [u32],
        ) -> Self {
            LineSite {
                function: ::core::sync::atomic::AtomicPtr::new(::core::ptr::null_mut()),
                first_line: first_line,
                last_line: last_line,
                source_hash: source_hash,
                name: name.as_ptr(),
                name_length: name.len(),
                file: file.as_ptr(),
                file_length: file.len(),
                points: points.as_ptr(),
                point_count: points.len(),
            }
        }

        // Registers the function when the program is loaded, even if it is never called.
        pub fn declare(&'static self) {
            // SAFETY: `self` is a static site, so the pointer is valid for the rest of the process.
            unsafe { mlprof_lines_declare(self) }
        }
    }

    // Frame of one call of a function, or of a closure or async block in it. The fields are atomic,
    // because a future that contains the frame may move between threads.
    #[repr(C)]
    pub struct Lines {
        block: ::core::sync::atomic::AtomicPtr<()>,
        site: ::core::sync::atomic::AtomicPtr<()>,
        thread: ::core::sync::atomic::AtomicU64,
        outer: ::core::sync::atomic::AtomicU32,
        point: ::core::sync::atomic::AtomicU32,
    }

    unsafe extern "C" {
        fn mlprof_lines_declare(site: *const LineSite);
        fn mlprof_lines_enter(site: *const LineSite, frame: *const Lines, kind: u32);
        fn mlprof_lines_at(frame: *const Lines, point: u32);
        fn mlprof_lines_back(frame: *const Lines, point: u32);
        fn mlprof_lines_leave(frame: *const Lines);
        fn mlprof_lines_suspend(frame: *const Lines);
        fn mlprof_lines_resume(frame: *const Lines);
    }

    impl Lines {
        // `kind` is 0 for a call, 1 for a closure, 2 for an async call and 3 for an async block.
        #[inline(always)]
        pub fn enter(site: &'static LineSite, kind: u32) -> Lines {
            let lines = Lines {
                block: ::core::sync::atomic::AtomicPtr::new(::core::ptr::null_mut()),
                site: ::core::sync::atomic::AtomicPtr::new(::core::ptr::null_mut()),
                thread: ::core::sync::atomic::AtomicU64::new(0),
                outer: ::core::sync::atomic::AtomicU32::new(0),
                point: ::core::sync::atomic::AtomicU32::new(0),
            };
            if wanted() & 256 != 0 {
                // SAFETY: the site is static, and the frame is a live local variable.
                unsafe { mlprof_lines_enter(site, &lines, kind) }
            }
            lines
        }

        #[inline(always)]
        fn is_on(&self) -> bool {
            !self.block.load(::core::sync::atomic::Ordering::Relaxed).is_null()
        }

        // Reports that a line begins.
        #[inline(always)]
        pub fn at(&self, point: u32) {
            if self.is_on() {
                // SAFETY: `is_on` has checked that the frame was entered, and it is alive during
                // the call.
                unsafe { mlprof_lines_at(self, point) }
            }
        }

        // Reports that a line continues.
        #[inline(always)]
        pub fn on(&self, point: u32) {
            if self.is_on() {
                // SAFETY: `is_on` has checked that the frame was entered, and it is alive during
                // the call.
                unsafe { mlprof_lines_back(self, point) }
            }
        }

        // Reports that a line begins once this value is available.
        #[inline(always)]
        pub fn then<T>(&self, point: u32, value: T) -> T {
            self.at(point);
            value
        }

        // Reports that a line continues once this value is available.
        #[inline(always)]
        pub fn back<T>(&self, point: u32, value: T) -> T {
            self.on(point);
            value
        }

        // Reports that a line continues once this value is available. The value's own line has
        // begun before.
        #[inline(always)]
        pub fn within<T>(&self, _has_begun: (), value: T, point: u32) -> T {
            self.on(point);
            value
        }

        // Wraps an awaited future. No line runs while the future is pending.
        #[inline(always)]
        pub fn polled<F: ::core::future::IntoFuture>(
            &self,
            future: F,
        ) -> LinesPolled<'_, F::IntoFuture> {
            let future = ::core::future::IntoFuture::into_future(future);
            LinesPolled { lines: self, is_suspended: false, future: future }
        }
    }

    impl ::core::ops::Drop for Lines {
        #[inline(always)]
        fn drop(&mut self) {
            if self.is_on() {
                // SAFETY: `is_on` has checked that the frame was entered. It is still alive and is
                // left only once, here.
                unsafe { mlprof_lines_leave(self) }
            }
        }
    }

    pub struct LinesPolled<'a, F> {
        lines: &'a Lines,
        is_suspended: bool,
        future: F,
    }

    impl<F: ::core::future::Future> ::core::future::Future for LinesPolled<'_, F> {
        type Output = F::Output;

        #[inline]
        fn poll(
            self: ::core::pin::Pin<&mut Self>,
            context: &mut ::core::task::Context<'_>,
        ) -> ::core::task::Poll<F::Output> {
            // SAFETY: the future is never moved out of `this`. No other field is pinned, and the
            // type has no `Drop` implementation.
            let this = unsafe { self.get_unchecked_mut() };
            if this.is_suspended {
                this.is_suspended = false;
                // SAFETY: the frame was entered as an async one, and `is_suspended` shows that it
                // was suspended before.
                unsafe { mlprof_lines_resume(this.lines) }
            }
            // SAFETY: `this` is pinned and the future is never moved out of it, so the future is
            // pinned as well.
            let future = unsafe { ::core::pin::Pin::new_unchecked(&mut this.future) };
            let result = future.poll(context);
            if result.is_pending() && this.lines.is_on() {
                this.is_suspended = true;
                // SAFETY: `is_on` has checked that the frame was entered. It is an async frame,
                // because only async code can await.
                unsafe { mlprof_lines_suspend(this.lines) }
            }
            result
        }
    }
