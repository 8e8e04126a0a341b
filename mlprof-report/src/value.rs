//! Report values, which other programs read and do not construct: a new field breaks none of them.

/// Declares a `#[non_exhaustive]` struct, and a hidden struct of the same fields from which
/// mlprof's other crates build it: `SettingParts { … }.build()`.
macro_rules! report_value {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident from $parts:ident {
            $($(#[$of_field:meta])* pub $field:ident: $kind:ty,)*
        }
    ) => {
        $(#[$attribute])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$of_field])* pub $field: $kind,)*
        }

        #[doc(hidden)]
        #[expect(missing_debug_implementations, reason = "it lives until it is built")]
        pub struct $parts {
            $(pub $field: $kind,)*
        }

        impl $parts {
            pub fn build(self) -> $name {
                $name { $($field: self.$field,)* }
            }
        }

        impl From<$name> for $parts {
            fn from(value: $name) -> Self {
                Self { $($field: value.$field,)* }
            }
        }
    };
}

pub(crate) use report_value;
