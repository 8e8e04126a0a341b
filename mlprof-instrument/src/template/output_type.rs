// Text for one tensor type with readable values.

    impl Readable for /*TYPE*/ {
        fn read(&self, reader: &Reader) {
            let tensor = self;
            let dtype = match /*DTYPE*/ { /*CODES*/ };
            /*NUMBERS*/
        }
    }

    impl Hold for /*TYPE*/ {
        fn hold(&self, held: &mut Held) {
            held.push(__mlprof_alloc::boxed::Box::new(::core::clone::Clone::clone(self)))
        }
    }
