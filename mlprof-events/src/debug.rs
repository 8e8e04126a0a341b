//! Macros that implement `Debug` by the message of an error or by the name of a type.

/// Implements `Debug` for an error type by its own `Display` and the `Display` of its sources, in
/// one line.
///
/// A `main` that returns `Result<(), E>` prints the error by `Debug`. With this implementation
/// users see the cause and the remedy instead of the fields of an enum.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_display {
    ($type:ty) => {
        impl ::std::fmt::Debug for $type {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::error_chain::write(self, formatter)
            }
        }
    };
}

/// Implements `Debug` for a type by its name alone. It is for types whose fields do not help a
/// reader or do not implement `Debug`. The brackets contain the generic parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_name {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> ::std::fmt::Debug for $type {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str($crate::names::short_name_of(::std::any::type_name::<Self>()))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_error_prints_its_message_where_main_returns_it() {
        let error = "wait=x".parse::<crate::Schedule>().expect_err("x is not a number");
        let returned: Box<dyn std::error::Error> = error.into();
        let message = "cannot parse wait=x in a schedule: use a whole number such as wait=1";
        assert_eq!(format!("Error: {returned:?}"), format!("Error: {message}"));
    }

    #[derive(thiserror::Error)]
    enum Outer {
        #[error("cannot write the report")]
        Told(#[source] std::io::Error),
        #[error("cannot write the report: {0}")]
        Repeated(#[source] std::io::Error),
    }
    crate::debug_as_display!(Outer);

    #[test]
    fn the_causes_follow_and_none_is_printed_twice() {
        let full = || std::io::Error::other("the disk is full");
        for error in [Outer::Told(full()), Outer::Repeated(full())] {
            assert_eq!(format!("{error:?}"), "cannot write the report: the disk is full");
        }
    }
}
