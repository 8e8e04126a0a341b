// The macro's arms for ops: arguments that are told if they are tensors, and those of which a rule
// says which are told.
    ($kind:expr, $name:expr, $line:expr; $($input:expr),*) => {
        let _mlprof_guard = $crate::__mlprof::open_with(
            __mlprof_site!($kind, $name, $line),
            const { $crate::__mlprof::bit($kind) },
            |words| {
                #[allow(unused_imports)]
                use $crate::__mlprof::{First as _, Fourth as _, Second as _, Third as _};
                $( (&&&&$crate::__mlprof::Input(&$input)).tell(words); )*
                let _ = words;
            },
        );
    };
    ($kind:expr, $name:expr, $line:expr => $($input:expr),*) => {
        let _mlprof_guard = $crate::__mlprof::open_with(
            __mlprof_site!($kind, $name, $line),
            const { $crate::__mlprof::bit($kind) },
            |words| {
                #[allow(unused_imports)]
                use $crate::__mlprof::{First as _, Fourth as _, Second as _, Third as _};
                $( (&&&&$crate::__mlprof::Value(&$input)).tell(words); )*
                let _ = words;
            },
        );
    };
    ($kind:expr, $name:expr, $line:expr, $made:expr, [$($chosen:expr),*]; $($input:expr),*) => {
        let _mlprof_guard = $crate::__mlprof::open_with(
            __mlprof_site!($kind, $name, $line),
            const {
                if $crate::__mlprof::is_one_of($made, &[$($chosen),*]) {
                    $crate::__mlprof::bit($kind)
                } else {
                    0
                }
            },
            |words| {
                #[allow(unused_imports)]
                use $crate::__mlprof::{First as _, Fourth as _, Second as _, Third as _};
                $( (&&&&$crate::__mlprof::Input(&$input)).tell(words); )*
                let _ = words;
            },
        );
    };
