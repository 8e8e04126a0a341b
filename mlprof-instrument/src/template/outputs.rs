// Text for the outputs of ops, for crates whose rules describe how to read tensor values. Tensors
// are kept as they are, and read only if a profiler requests it. The profiler receives one pointer
// and one function per tensor.

    // Memory layout of a tensor. mlprof-core's `spliced/` defines the same type.
    #[repr(C)]
    pub struct Numbers {
        storage: *const u8,
        address: *const u8,
        dtype: i64,
        sizes: *const i64,
        strides: *const i64,
        dimensions: usize,
    }

    type Take = unsafe extern "C-unwind" fn(*mut u8, *const Numbers);

    // Reported tensor.
    #[repr(C)]
    pub struct ReportedTensor {
        object: *const u8,
        read: unsafe extern "C-unwind" fn(*const u8, Take, *mut u8),
    }

    unsafe extern "C" {
        fn mlprof_returned(
            site: *const Site,
            outputs: *const ReportedTensor,
            output_count: usize,
            inputs: *const ReportedTensor,
            input_count: usize,
        );
    }

    // Receiver of a tensor's values.
    pub struct Reader {
        take: Take,
        data: *mut u8,
    }

    impl Reader {
        // Passes on the tensor. Its values are in `all`, and `start` is the index of the first one.
        pub fn read<
            's,
            T,
            S: ::core::iter::Iterator<Item = &'s usize>,
            D: ::core::iter::Iterator<Item = i64>,
        >(
            &self,
            dtype: i64,
            all: &[T],
            start: usize,
            sizes: S,
            strides: D,
        ) {
            let sizes: __mlprof_alloc::vec::Vec<i64> = sizes.map(|size| *size as i64).collect();
            let strides: __mlprof_alloc::vec::Vec<i64> = strides.collect();
            if let (::core::option::Option::Some(rest), true) =
                (all.get(start..), sizes.len() == strides.len())
            {
                let numbers = Numbers {
                    storage: all.as_ptr() as *const u8,
                    address: rest.as_ptr() as *const u8,
                    dtype: dtype,
                    sizes: sizes.as_ptr(),
                    strides: strides.as_ptr(),
                    dimensions: sizes.len(),
                };
                // SAFETY: all pointers in `numbers` refer to data that is borrowed for the duration
                // of the call. `take` and `data` belong together, because the caller provided both.
                unsafe { (self.take)(self.data, &numbers) }
            }
        }
    }

    // Tensor with readable values.
    pub trait Readable {
        fn read(&self, reader: &Reader);
    }

    pub type Held = __mlprof_alloc::vec::Vec<__mlprof_alloc::boxed::Box<dyn Readable>>;

    // Tensor or container of tensors.
    pub trait Hold {
        fn hold(&self, held: &mut Held);
    }

    impl<T: Hold + ?::core::marker::Sized> Hold for &T {
        fn hold(&self, held: &mut Held) {
            (**self).hold(held)
        }
    }

    impl<T: Hold + ?::core::marker::Sized> Hold for &mut T {
        fn hold(&self, held: &mut Held) {
            (**self).hold(held)
        }
    }

    impl<T: Hold> Hold for ::core::option::Option<T> {
        fn hold(&self, held: &mut Held) {
            if let ::core::option::Option::Some(tensor) = self {
                tensor.hold(held)
            }
        }
    }

    impl<T: Hold, E> Hold for ::core::result::Result<T, E> {
        fn hold(&self, held: &mut Held) {
            if let ::core::result::Result::Ok(tensor) = self {
                tensor.hold(held)
            }
        }
    }

    impl<T: Hold> Hold for [T] {
        fn hold(&self, held: &mut Held) {
            for tensor in self {
                tensor.hold(held)
            }
        }
    }

    impl<T: Hold, const N: usize> Hold for [T; N] {
        fn hold(&self, held: &mut Held) {
            self[..].hold(held)
        }
    }

    impl<T: Hold> Hold for __mlprof_alloc::vec::Vec<T> {
        fn hold(&self, held: &mut Held) {
            self[..].hold(held)
        }
    }

    impl<A: Hold, B: Hold> Hold for (A, B) {
        fn hold(&self, held: &mut Held) {
            self.0.hold(held);
            self.1.hold(held)
        }
    }

    impl<A: Hold, B: Hold, C: Hold> Hold for (A, B, C) {
        fn hold(&self, held: &mut Held) {
            self.0.hold(held);
            self.1.hold(held);
            self.2.hold(held)
        }
    }

    impl<'a, T: Hold + 'a, I: ::core::clone::Clone + ::core::iter::Iterator<Item = &'a T>> Hold
        for List<I>
    {
        fn hold(&self, held: &mut Held) {
            for tensor in ::core::clone::Clone::clone(&self.0) {
                tensor.hold(held)
            }
        }
    }

    // Holds a value if it is a tensor. For methods of the same name, the compiler prefers that of
    // `&Look<T>` to that of `Look<T>`.
    pub struct Look<'a, T: ?::core::marker::Sized>(pub &'a T);

    pub trait IsHeld {
        fn hold_it(&self, held: &mut Held);
    }

    pub trait IsNotHeld {
        fn hold_it(&self, held: &mut Held);
    }

    impl<T: Hold + ?::core::marker::Sized> IsHeld for &Look<'_, T> {
        fn hold_it(&self, held: &mut Held) {
            self.0.hold(held)
        }
    }

    impl<T: ?::core::marker::Sized> IsNotHeld for Look<'_, T> {
        #[inline(always)]
        fn hold_it(&self, _: &mut Held) {}
    }

    #[inline(always)]
    fn looks_at(guard: &Guard) -> bool {
        guard.opened != 0 && wanted() & 2048 != 0
    }

    // Collects the inputs of an op while it runs.
    #[inline(always)]
    pub fn given<F: ::core::ops::FnOnce(&mut Held)>(
        guard: &Guard,
        hold: F,
    ) -> ::core::option::Option<Held> {
        if looks_at(guard) {
            ::core::option::Option::Some(held_by(hold))
        } else {
            ::core::option::Option::None
        }
    }

    #[inline(never)]
    fn held_by<F: ::core::ops::FnOnce(&mut Held)>(hold: F) -> Held {
        let mut held = Held::new();
        hold(&mut held);
        held
    }

    // Collects and reports the outputs of an op.
    #[inline(always)]
    pub fn returned<F: ::core::ops::FnOnce(&mut Held)>(
        guard: &Guard,
        given: ::core::option::Option<Held>,
        hold: F,
    ) {
        if let (::core::option::Option::Some(given), true) = (given, looks_at(guard)) {
            tell_returned(guard.site, &held_by(hold), &given);
        }
    }

    #[inline(never)]
    fn tell_returned(site: &'static Site, outputs: &Held, inputs: &Held) {
        let (outputs, inputs) = (told(outputs), told(inputs));
        // SAFETY: the site is static. Pointers and lengths belong to the two vectors, which are
        // borrowed for the duration of the call.
        unsafe {
            mlprof_returned(site, outputs.as_ptr(), outputs.len(), inputs.as_ptr(), inputs.len())
        }
    }

    fn told(held: &Held) -> __mlprof_alloc::vec::Vec<ReportedTensor> {
        held.iter()
            .map(|one| ReportedTensor {
                object: one as *const __mlprof_alloc::boxed::Box<dyn Readable> as *const u8,
                read: read_told,
            })
            .collect()
    }

    unsafe extern "C-unwind" fn read_told(object: *const u8, take: Take, data: *mut u8) {
        // SAFETY: `told` created this pointer from a reference that is still borrowed during the
        // call of `mlprof_returned`. The runtime calls this function only within that call.
        let one = unsafe { &*(object as *const __mlprof_alloc::boxed::Box<dyn Readable>) };
        one.read(&Reader { take: take, data: data })
    }

    /*TYPES*/
