//! Tuples, as burn takes several metrics at once.

/// Calls a macro with the names of the parts of each tuple that burn takes: of one to six.
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
