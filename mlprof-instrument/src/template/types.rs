// Text for crates whose tensors are named types.

    impl<T: Tensor + ?::core::marker::Sized> First for &&&Input<'_, T> {
        #[inline]
        fn tell(&self, words: &mut Words) {
            self.0.tell(words)
        }
    }

    impl<T: Tensor + ?::core::marker::Sized> First for &&&Value<'_, T> {
        #[inline]
        fn tell(&self, words: &mut Words) {
            self.0.tell(words)
        }
    }
