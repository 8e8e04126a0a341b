//! Profiler names, and texts that join several of them.

use std::sync::Arc;

use crate::multi::MultiProfiler;
use crate::nvtx::{EmitNvtxExt, NvtxProfiler};
use crate::{AdvancedProfiler, Error, PassThroughProfiler, Profiler, SimpleProfiler};

/// Separator between names.
const JOINED_BY: char = '+';

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(JOINED_BY).map(str::trim)
}

/// Profiler that a name selects.
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

    /// Returns the Cargo feature that the profiler requires, if any.
    fn feature(self) -> Option<&'static str> {
        match self {
            Self::Tensor => Some("tensor"),
            Self::Numerics => Some("numerics"),
            Self::Simple | Self::Advanced | Self::Nvtx | Self::None => None,
        }
    }

    /// Returns `true` if this program was built with the profiler.
    fn is_built(self) -> bool {
        match self {
            Self::Tensor => cfg!(feature = "tensor"),
            Self::Numerics => cfg!(feature = "numerics"),
            Self::Simple | Self::Advanced | Self::Nvtx | Self::None => true,
        }
    }

    fn make(self) -> Arc<dyn Profiler> {
        match self {
            Self::Simple => Arc::new(SimpleProfiler::new()),
            Self::Advanced => Arc::new(AdvancedProfiler::new()),
            #[cfg(feature = "tensor")]
            Self::Tensor => Arc::new(crate::TensorProfiler::new()),
            #[cfg(feature = "numerics")]
            Self::Numerics => Arc::new(crate::NumericsProfiler::new()),
            // `check` has already rejected profilers that were not built.
            #[cfg(not(feature = "tensor"))]
            Self::Tensor => Arc::new(PassThroughProfiler::new()),
            #[cfg(not(feature = "numerics"))]
            Self::Numerics => Arc::new(PassThroughProfiler::new()),
            Self::Nvtx => Arc::new(NvtxProfiler::new()),
            Self::None => Arc::new(PassThroughProfiler::new()),
        }
    }
}

/// Checks a name, or several names joined by `+`.
pub(crate) fn check(text: &str) -> Result<(), Error> {
    check_in(text, Named::is_built)
}

/// Checks the names against the profilers for which `is_built` returns `true`.
fn check_in(text: &str, is_built: fn(Named) -> bool) -> Result<(), Error> {
    check_parts(text, |name| {
        Err(Error::UnknownProfiler { name: name.to_owned(), text: text.to_owned() })
    })?;
    let left_out = parts(text).filter_map(Named::of).find(|one| !is_built(*one));
    let feature = left_out.and_then(Named::feature);
    feature.map_or(Ok(()), |profiler| Err(Error::NotBuilt { profiler }))
}

/// Rejects joined names if two of them select the same profiler. Unknown names are accepted.
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

/// Creates the profiler for a name, or for several names joined by `+`.
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
    fn a_profiler_that_is_not_built_names_its_feature() {
        let without = |one: Named| !matches!(one, Named::Tensor | Named::Numerics);
        let error = |text: &str| check_in(text, without).expect_err("not built").to_string();
        let expected = "cannot use the profiler \"tensor\": the program was built without it; turn on the \
                        feature `tensor` of its mlprof plugin, or of mlprof-core";
        assert_eq!(error("tensor"), expected);
        assert_eq!(error(" PyTorch "), expected);
        assert!(error("simple+numerics").contains("the feature `numerics`"));
        assert!(error("tensor+smiple").starts_with("cannot find a profiler named \"smiple\""));
        assert!(check_in("simple+advanced+nvtx", without).is_ok());
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
            "cannot find a profiler named \"smiple\": use one of \"simple\", \"advanced\", \
             \"tensor\", \"pytorch\", \"numerics\", \"nvtx\", \"none\", several joined by '+', None, or a \
             profiler of your own"
        );
        let among_others = error("nvtx + smiple+simple");
        let beginning = "cannot find a profiler named \"smiple\" (in \"nvtx + smiple+simple\"): use \
                         one of \"simple\", ";
        assert!(among_others.starts_with(beginning), "{among_others}");
        assert!(
            error("simple+").starts_with("cannot find a profiler named \"\" (in \"simple+\"): ")
        );
        assert!(error("").starts_with("cannot find a profiler named \"\": "));
    }

    #[test]
    fn a_name_twice_is_said() {
        let twice = error("simple+nvtx+Simple");
        let expected = "cannot use the profiler \"Simple\" twice (in \
                        \"simple+nvtx+Simple\"): name each one once; there are \"simple\", ";
        assert!(twice.starts_with(expected), "{twice}");
        assert!(error("tensor+pytorch").starts_with("cannot use the profiler \"pytorch\" twice"));
    }
}
