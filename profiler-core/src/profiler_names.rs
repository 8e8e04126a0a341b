//! The names that profilers are selected by, and texts of several.

use std::sync::Arc;

use crate::multi::MultiProfiler;
use crate::nvtx::{EmitNvtxExt, NvtxProfiler};
use crate::{
    AdvancedProfiler, Error, NumericsProfiler, PassThroughProfiler, Profiler, SimpleProfiler,
    TensorProfiler,
};

/// What stands between several names.
const JOINED_BY: char = '+';

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(JOINED_BY).map(str::trim)
}

/// What the names say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Simple,
    Advanced,
    Tensor,
    Numerics,
    Nvtx,
    None,
}

impl Named {
    fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "simple" => Some(Self::Simple),
            "advanced" => Some(Self::Advanced),
            "tensor" | "pytorch" => Some(Self::Tensor),
            "numerics" => Some(Self::Numerics),
            "nvtx" => Some(Self::Nvtx),
            "none" => Some(Self::None),
            _ => None,
        }
    }

    fn make(self) -> Arc<dyn Profiler> {
        match self {
            Self::Simple => Arc::new(SimpleProfiler::new()),
            Self::Advanced => Arc::new(AdvancedProfiler::new()),
            Self::Tensor => Arc::new(TensorProfiler::new()),
            Self::Numerics => Arc::new(NumericsProfiler::new()),
            Self::Nvtx => Arc::new(NvtxProfiler::new()),
            Self::None => Arc::new(PassThroughProfiler::new()),
        }
    }
}

/// Checks a name, or several joined by `+`.
pub(crate) fn check(text: &str) -> Result<(), Error> {
    check_parts(text, |name| {
        Err(Error::UnknownProfiler { name: name.to_owned(), text: text.to_owned() })
    })
}

/// Refuses several names joined by `+` of which two name one profiler. Unknown names pass.
pub(crate) fn check_repeated(text: &str) -> Result<(), Error> {
    check_parts(text, |_unknown| Ok(()))
}

fn check_parts(text: &str, unknown: impl Fn(&str) -> Result<(), Error>) -> Result<(), Error> {
    let mut known = Vec::new();
    for name in parts(text) {
        match Named::of(name) {
            None => unknown(name)?,
            Some(which) if known.contains(&which) => {
                return Err(Error::RepeatedProfiler {
                    name: name.to_owned(),
                    text: text.to_owned(),
                });
            }
            Some(which) => known.push(which),
        }
    }
    Ok(())
}

/// The profiler of a name, or of several that are joined by `+`.
pub(crate) fn by_name(text: &str) -> Result<Arc<dyn Profiler>, Error> {
    check(text)?;
    let named = || parts(text).filter_map(Named::of);
    let measuring = named().filter(|one| !matches!(one, Named::Nvtx | Named::None));
    let profiler = MultiProfiler::of(measuring.map(Named::make).collect());
    Ok(match (profiler, named().any(|one| one == Named::Nvtx)) {
        (Some(profiler), true) => profiler.emit_nvtx(),
        (Some(profiler), false) => profiler,
        (None, true) => Named::Nvtx.make(),
        (None, false) => Named::None.make(),
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ProfilerExt;
    use crate::{Interest, PROFILER_NAMES};

    fn interest(text: &str) -> Interest {
        by_name(text).unwrap_or_else(|error| panic!("{error}")).interest()
    }

    fn error(text: &str) -> String {
        by_name(text).expect_err("no profiler").to_string()
    }

    #[test]
    fn every_listed_name_selects_in_any_case() {
        for name in PROFILER_NAMES {
            assert!(by_name(name).is_ok(), "{name}");
            assert!(by_name(&format!(" {} ", name.to_uppercase())).is_ok(), "{name}");
        }
    }

    #[test]
    fn names_joined_by_a_plus_are_one_profiler_each() {
        let reports = |text: &str| -> Vec<&'static str> {
            let several = by_name(text).unwrap_or_else(|error| panic!("{error}"));
            let parts = several.parts().iter().map(|part| match part.report() {
                Some(crate::Report::Simple(_)) => "simple",
                Some(crate::Report::Advanced(_)) => "advanced",
                Some(crate::Report::Tensor(_)) => "tensor",
                Some(_) => "another",
                None => "nvtx",
            });
            parts.collect()
        };
        assert_eq!(reports("simple+advanced"), ["simple", "advanced"]);
        assert_eq!(reports("Simple + pytorch"), ["simple", "tensor"]);
        assert_eq!(
            reports("advanced+ nvtx +simple+tensor"),
            ["nvtx", "advanced", "simple", "tensor"]
        );
        assert_eq!(reports("simple+nvtx"), ["nvtx", "simple"]);
        assert!(by_name("simple + none").expect("none adds nothing").parts().is_empty());
        assert_eq!(interest("simple+none"), Interest::ACTIONS);
        assert_eq!(interest("none"), Interest::NONE);
    }

    #[test]
    fn a_typo_lists_the_choices() {
        assert_eq!(
            error("smiple"),
            "there is no profiler named \"smiple\": use one of \"simple\", \"advanced\", \
             \"tensor\", \"pytorch\", \"numerics\", \"nvtx\", \"none\", several joined by '+', None, or a \
             profiler of your own"
        );
        let among_others = error("nvtx + smiple+simple");
        let beginning = "there is no profiler named \"smiple\" (in \"nvtx + smiple+simple\"): use \
                         one of \"simple\", ";
        assert!(among_others.starts_with(beginning), "{among_others}");
        assert!(error("simple+").starts_with("there is no profiler named \"\" (in \"simple+\"): "));
        assert!(error("").starts_with("there is no profiler named \"\": "));
    }

    #[test]
    fn a_name_twice_is_said() {
        let twice = error("simple+nvtx+Simple");
        let expected = "\"Simple\" names a profiler that was named before (in \
                        \"simple+nvtx+Simple\"): name each one once; there are \"simple\", ";
        assert!(twice.starts_with(expected), "{twice}");
        assert!(error("tensor+pytorch").starts_with("\"pytorch\" names a profiler that was named"));
    }
}
