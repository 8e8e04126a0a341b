//! The transfer of batches to a device, which the plugins of frameworks have in common.

/// Makes `MoveTo`, the trait of batches that can be moved to a device, for vectors, options and
/// tuples. For plugins, not for programs.
///
/// A macro, because a plugin may implement only a trait of its own for its framework's tensors.
#[doc(hidden)]
#[macro_export]
macro_rules! move_to {
    ($(#[$doc:meta])* MoveTo: $Device:ty, $Error:ty;) => {
        $(#[$doc])*
        pub trait MoveTo: Sized {
            /// Returns the same batch on `device`.
            ///
            /// # Errors
            ///
            /// Those of the framework, such as a device that has no memory left.
            fn move_to(self, device: $Device) -> ::std::result::Result<Self, $Error>;
        }

        impl<T: MoveTo> MoveTo for ::std::vec::Vec<T> {
            fn move_to(self, device: $Device) -> ::std::result::Result<Self, $Error> {
                self.into_iter().map(|part| part.move_to(device)).collect()
            }
        }

        impl<T: MoveTo> MoveTo for ::std::option::Option<T> {
            fn move_to(self, device: $Device) -> ::std::result::Result<Self, $Error> {
                self.map(|part| part.move_to(device)).transpose()
            }
        }

        $crate::move_to!(tuple $Device, $Error: A);
        $crate::move_to!(tuple $Device, $Error: A B);
        $crate::move_to!(tuple $Device, $Error: A B C);
        $crate::move_to!(tuple $Device, $Error: A B C D);
        $crate::move_to!(tuple $Device, $Error: A B C D E);
        $crate::move_to!(tuple $Device, $Error: A B C D E F);
    };
    (tuple $Device:ty, $Error:ty: $($part:ident)+) => {
        impl<$($part: MoveTo),+> MoveTo for ($($part,)+) {
            fn move_to(self, device: $Device) -> ::std::result::Result<Self, $Error> {
                #[expect(non_snake_case, reason = "the parts are named as their types")]
                let ($($part,)+) = self;
                Ok(($($part.move_to(device)?,)+))
            }
        }
    };
}
