// Text for crates that are generic over tensors. Every type with this trait is a tensor.

    pub struct Bound<'a, T>(&'a T);

    impl<T: /*TYPE*/> Tensor for Bound<'_, T> {
        #[inline]
        fn tell(&self, words: &mut Words) {
            let tensor = self.0;
            let code = match /*DTYPE*/ { /*CODES*/ };
            words.input(code, |words| {
                for size in (/*DIMENSIONS*/).iter() {
                    words.push(*size as i64)
                }
            })
        }
    }

    macro_rules! __mlprof_bound {
        ($wrapper:ident) => {
            impl<T: /*TYPE*/> First for &&&$wrapper<'_, T> {
                #[inline]
                fn tell(&self, words: &mut Words) {
                    Bound(self.0).tell(words)
                }
            }
            impl<T: /*TYPE*/> Second for &&$wrapper<'_, &T> {
                #[inline]
                fn tell(&self, words: &mut Words) {
                    Bound(*self.0).tell(words)
                }
            }
            impl<T: /*TYPE*/> Second for &&$wrapper<'_, ::core::option::Option<T>> {
                #[inline]
                fn tell(&self, words: &mut Words) {
                    match self.0 {
                        ::core::option::Option::Some(tensor) => Bound(tensor).tell(words),
                        ::core::option::Option::None => words.push(0),
                    }
                }
            }
            impl<T: /*TYPE*/> Second for &&$wrapper<'_, __mlprof_alloc::vec::Vec<T>> {
                #[inline]
                fn tell(&self, words: &mut Words) {
                    words.push((255 << 32) | self.0.len() as i64);
                    for tensor in self.0 {
                        Bound(tensor).tell(words);
                    }
                }
            }
        };
    }
    __mlprof_bound!(Input);
    __mlprof_bound!(Value);
