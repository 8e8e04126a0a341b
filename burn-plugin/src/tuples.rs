//! Support for the tuples in which burn accepts several metrics at once.

/// Calls a macro with the element names of each tuple size that burn accepts, from one to six.
macro_rules! for_each_tuple {
    ($implement:ident) => {
        $implement!(A);
        $implement!(A B);
        $implement!(A B C);
        $implement!(A B C D);
        $implement!(A B C D E);
        $implement!(A B C D E F);
    };
}
pub(crate) use for_each_tuple;
