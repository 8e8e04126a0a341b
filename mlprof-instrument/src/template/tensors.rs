// Text for crates whose rules define tensor types. It encodes arguments as the words of the
// interface. The compiler decides which arguments are tensors. For methods of the same name, it
// prefers that of `&&&Input<T>` to that of `&&Input<T>`, and so on.

    extern crate alloc as __mlprof_alloc;

    // Encoded inputs. An input that does not fit is omitted, together with all later ones.
    pub struct Words {
        words: [::core::mem::MaybeUninit<i64>; 256],
        count: usize,
        is_full: bool,
    }

    impl Words {
        #[inline(always)]
        fn push(&mut self, word: i64) {
            if self.is_full || self.count == self.words.len() {
                self.is_full = true;
            } else {
                self.words[self.count] = ::core::mem::MaybeUninit::new(word);
                self.count += 1;
            }
        }

        // Adds a head with this code and the number of following words, which `tell` pushes.
        #[inline(always)]
        fn input<F: ::core::ops::FnOnce(&mut Words)>(&mut self, code: i64, tell: F) {
            let head = self.count;
            self.push(0);
            tell(self);
            if self.is_full {
                self.count = head;
            } else {
                let rank = (self.count - head - 1) as i64;
                self.words[head] = ::core::mem::MaybeUninit::new((code << 32) | rank);
            }
        }

        #[inline]
        pub fn list<'a, T: Tensor + 'a, I: ::core::iter::ExactSizeIterator<Item = &'a T>>(
            &mut self,
            tensors: I,
        ) {
            self.push((255 << 32) | tensors.len() as i64);
            for tensor in tensors {
                tensor.tell(self);
            }
        }
    }

    #[inline(always)]
    pub fn open_with<F: ::core::ops::FnOnce(&mut Words)>(
        site: &'static Site,
        bit: u32,
        tell: F,
    ) -> Guard {
        let wanted = wanted();
        let is_wanted = wanted & bit != 0;
        Guard::new(site, if is_wanted { open_told(site, wanted, tell) } else { 0 })
    }

    #[inline(never)]
    fn open_told<F: ::core::ops::FnOnce(&mut Words)>(
        site: &'static Site,
        wanted: u32,
        tell: F,
    ) -> u64 {
        if wanted & 8 == 0 {
            return open_now(site);
        }
        let mut words =
            Words { words: [::core::mem::MaybeUninit::uninit(); 256], count: 0, is_full: false };
        tell(&mut words);
        // SAFETY: the site is static, and the first `words.count` words are initialised.
        unsafe { mlprof_open(site, words.words.as_ptr() as *const i64, words.count) }
    }

    // Opens an op with a name that is only known at run time. The address and length of the name
    // precede the inputs.
    #[inline(always)]
    pub fn open_named<
        'n,
        N: ::core::ops::FnOnce() -> &'n str,
        F: ::core::ops::FnOnce(&mut Words),
    >(
        site: &'static Site,
        bit: u32,
        name: N,
        tell: F,
    ) -> Guard {
        let wanted = wanted();
        let is_wanted = wanted & bit != 0;
        Guard::new(site, if is_wanted { open_named_now(site, wanted, name(), tell) } else { 0 })
    }

    #[inline(never)]
    fn open_named_now<F: ::core::ops::FnOnce(&mut Words)>(
        site: &'static Site,
        wanted: u32,
        name: &str,
        tell: F,
    ) -> u64 {
        let mut words =
            Words { words: [::core::mem::MaybeUninit::uninit(); 256], count: 0, is_full: false };
        words.push(name.as_ptr() as usize as i64);
        words.push(name.len() as i64);
        if wanted & 8 != 0 {
            tell(&mut words);
        }
        // SAFETY: the site is static, and the first `words.count` words are initialised. The first
        // two words are the address and length of a string that outlives the call.
        unsafe { mlprof_open(site, words.words.as_ptr() as *const i64, words.count) }
    }

    // Tensor or container of tensors.
    pub trait Tensor {
        fn tell(&self, words: &mut Words);
    }

    impl<T: Tensor + ?::core::marker::Sized> Tensor for &T {
        #[inline]
        fn tell(&self, words: &mut Words) {
            (**self).tell(words)
        }
    }

    impl<T: Tensor + ?::core::marker::Sized> Tensor for &mut T {
        #[inline]
        fn tell(&self, words: &mut Words) {
            (**self).tell(words)
        }
    }

    impl<T: Tensor> Tensor for ::core::option::Option<T> {
        #[inline]
        fn tell(&self, words: &mut Words) {
            match self {
                ::core::option::Option::Some(tensor) => tensor.tell(words),
                ::core::option::Option::None => words.push(0),
            }
        }
    }

    impl<T: Tensor> Tensor for [T] {
        #[inline]
        fn tell(&self, words: &mut Words) {
            words.list(self.iter())
        }
    }

    impl<T: Tensor, const N: usize> Tensor for [T; N] {
        #[inline]
        fn tell(&self, words: &mut Words) {
            words.list(self.iter())
        }
    }

    impl<T: Tensor> Tensor for __mlprof_alloc::vec::Vec<T> {
        #[inline]
        fn tell(&self, words: &mut Words) {
            words.list(self.iter())
        }
    }

    impl<A: Tensor, B: Tensor> Tensor for (A, B) {
        #[inline]
        fn tell(&self, words: &mut Words) {
            words.push((255 << 32) | 2);
            self.0.tell(words);
            self.1.tell(words);
        }
    }

    impl<A: Tensor, B: Tensor, C: Tensor> Tensor for (A, B, C) {
        #[inline]
        fn tell(&self, words: &mut Words) {
            words.push((255 << 32) | 3);
            self.0.tell(words);
            self.1.tell(words);
            self.2.tell(words);
        }
    }

    // Iterator over tensors that are encoded as a list.
    pub struct List<I>(pub I);

    impl<'a, T: Tensor + 'a, I: ::core::clone::Clone + ::core::iter::ExactSizeIterator<Item = &'a T>>
        Tensor for List<I>
    {
        #[inline]
        fn tell(&self, words: &mut Words) {
            words.list(::core::clone::Clone::clone(&self.0))
        }
    }

    // Integers that determine the work of an op.
    pub trait Integers {
        fn tell_integers(&self, words: &mut Words);
    }

    pub trait Integer: ::core::marker::Copy {
        fn word(self) -> i64;
    }

    macro_rules! __mlprof_integers {
        ($($integer:ty)*) => {
            $(
                impl Integer for $integer {
                    #[inline(always)]
                    fn word(self) -> i64 {
                        self as i64
                    }
                }
                impl Integers for $integer {
                    #[inline]
                    fn tell_integers(&self, words: &mut Words) {
                        words.input(254, |words| words.push(*self as i64))
                    }
                }
            )*
        };
    }
    __mlprof_integers!(usize u64 u32 u16 u8 isize i64 i32 i16 i8 bool);

    impl<T: Integer> Integers for [T] {
        #[inline]
        fn tell_integers(&self, words: &mut Words) {
            words.input(254, |words| {
                for value in self {
                    words.push(value.word())
                }
            })
        }
    }

    impl<T: Integer, const N: usize> Integers for [T; N] {
        #[inline]
        fn tell_integers(&self, words: &mut Words) {
            self[..].tell_integers(words)
        }
    }

    impl<T: Integer> Integers for (T, T) {
        #[inline]
        fn tell_integers(&self, words: &mut Words) {
            [self.0, self.1].tell_integers(words)
        }
    }

    // Padding before and after each dimension. If both sides are equal everywhere, one number per
    // dimension is encoded.
    impl<const N: usize> Integers for [(usize, usize); N] {
        #[inline]
        fn tell_integers(&self, words: &mut Words) {
            let is_even = self.iter().all(|sides| sides.0 == sides.1);
            words.input(254, |words| {
                for sides in self {
                    words.push(sides.0 as i64);
                    if !is_even {
                        words.push(sides.1 as i64);
                    }
                }
            })
        }
    }

    impl<T: Integers + ?::core::marker::Sized> Integers for &T {
        #[inline]
        fn tell_integers(&self, words: &mut Words) {
            (**self).tell_integers(words)
        }
    }

    // Argument that is encoded if it is a tensor.
    pub struct Input<'a, T: ?::core::marker::Sized>(pub &'a T);

    pub trait First {
        fn tell(&self, words: &mut Words);
    }

    pub trait Second {
        fn tell(&self, words: &mut Words);
    }

    pub trait Third {
        fn tell(&self, words: &mut Words);
    }

    pub trait Fallback {
        fn tell(&self, words: &mut Words);
    }

    /*TYPES*/

    impl<T: ?::core::marker::Sized> Fallback for Input<'_, T> {
        #[inline(always)]
        fn tell(&self, _: &mut Words) {}
    }

    // Argument that is encoded as a tensor or as integers, or omitted.
    pub struct Value<'a, T: ?::core::marker::Sized>(pub &'a T);

    impl<T: Integers + ?::core::marker::Sized> Third for &Value<'_, T> {
        #[inline]
        fn tell(&self, words: &mut Words) {
            self.0.tell_integers(words)
        }
    }

    impl<T: ?::core::marker::Sized> Fallback for Value<'_, T> {
        #[inline]
        fn tell(&self, words: &mut Words) {
            words.push(0)
        }
    }
