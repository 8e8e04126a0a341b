// What functions call whose lines are profiled: part of the module that is put into a crate's root.
// Comments stand on lines of their own and are taken out, line breaks too. The same two types are in
// mlprof-core's lines/abi.rs.

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

    // SAFETY: the pointers are to static data that is never written to.
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

        // Before anything runs: that there is this function, whether or not it will be called.
        pub fn declare(&'static self) {
            // SAFETY: a static site.
            unsafe { mlprof_lines_declare(self) }
        }
    }

    // One call of a function, or of a closure or async block in it. Atomic so that a future that has
    // it may go from thread to thread.
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
        // Of a call 0, of a closure 1, of an async call 2, of an async block 3.
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
                // SAFETY: a static site, and a frame.
                unsafe { mlprof_lines_enter(site, &lines, kind) }
            }
            lines
        }

        #[inline(always)]
        fn is_on(&self) -> bool {
            !self.block.load(::core::sync::atomic::Ordering::Relaxed).is_null()
        }

        // A line begins.
        #[inline(always)]
        pub fn at(&self, point: u32) {
            if self.is_on() {
                // SAFETY: the frame was entered.
                unsafe { mlprof_lines_at(self, point) }
            }
        }

        // A line goes on.
        #[inline(always)]
        pub fn on(&self, point: u32) {
            if self.is_on() {
                // SAFETY: the frame was entered.
                unsafe { mlprof_lines_back(self, point) }
            }
        }

        // A line begins when there is this value.
        #[inline(always)]
        pub fn then<T>(&self, point: u32, value: T) -> T {
            self.at(point);
            value
        }

        // A line goes on when there is this value.
        #[inline(always)]
        pub fn back<T>(&self, point: u32, value: T) -> T {
            self.on(point);
            value
        }

        // The same; the value's own line has begun before.
        #[inline(always)]
        pub fn within<T>(&self, _has_begun: (), value: T, point: u32) -> T {
            self.on(point);
            value
        }

        // A future that is awaited: while it is not ready no line runs.
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
                // SAFETY: the frame was entered.
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
            // SAFETY: the future is never moved out of its place; nothing else of it is pinned, and
            // it has no Drop of its own.
            let this = unsafe { self.get_unchecked_mut() };
            if this.is_suspended {
                this.is_suspended = false;
                // SAFETY: the frame was entered, as an async one, and suspended.
                unsafe { mlprof_lines_resume(this.lines) }
            }
            // SAFETY: as above.
            let future = unsafe { ::core::pin::Pin::new_unchecked(&mut this.future) };
            let result = future.poll(context);
            if result.is_pending() && this.lines.is_on() {
                this.is_suspended = true;
                // SAFETY: the frame was entered, as an async one: only those can await.
                unsafe { mlprof_lines_suspend(this.lines) }
            }
            result
        }
    }
