// Text for one tensor type.

    impl Tensor for /*TYPE*/ {
        #[inline]
        fn tell(&self, words: &mut Words) {
            let tensor = self;
            let code = match /*DTYPE*/ { /*CODES*/ };
            words.input(code, |words| {
                for size in (/*DIMENSIONS*/).iter() {
                    words.push(*size as i64)
                }
            })
        }
    }
