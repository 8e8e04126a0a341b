//! From what a user passes to `.profiler(…)` to a profiler.

use std::sync::Arc;

use crate::nvtx::NvtxProfiler;
use crate::spliced::with_run;
use crate::{AdvancedProfiler, PassThroughProfiler, Profiler, SimpleProfiler, TensorProfiler};

/// The names that a profiler can be selected by, in any mixture of upper and lower case. `"pytorch"`
/// is Lightning's name for what is `"tensor"` here.
pub const PROFILER_NAMES: [&str; 6] = ["simple", "advanced", "tensor", "pytorch", "nvtx", "none"];

/// No profiler has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no profiler named {name:?}: use one of {choices}, None, or a profiler of your own",
    choices = PROFILER_NAMES.map(|name| format!("{name:?}")).join(", ")
)]
pub struct UnknownProfiler {
    /// The name that was asked for.
    pub name: String,
}

/// Whatever can be passed to `.profiler(…)` of a trainer: a name (`&str`, `String`), a profiler (owned
/// or in an `Arc`), or an `Option` of any of these, of which `None` measures nothing.
///
/// In a process of [`mlprof run`](crate::spliced) the profiler of that run measures, too.
///
/// ```
/// use profiler_core::{IntoProfiler, SimpleProfiler};
///
/// "Simple".into_profiler()?;
/// SimpleProfiler::new().dirpath("logs").filename("run").into_profiler()?;
/// let of_command_line: Option<String> = std::env::args().nth(1);
/// of_command_line.into_profiler()?;
/// let error = "smiple".into_profiler().err().expect("a typo");
/// assert!(error.to_string().contains(r#""simple", "advanced", "tensor", "pytorch", "nvtx", "none""#));
/// # Ok::<(), profiler_core::UnknownProfiler>(())
/// ```
///
/// A bare `None` does not say what it is an option of; the compiler wants `None::<&str>`. The name
/// `"none"` says the same.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a profiler nor the name of one",
    note = "pass a name (`&str`, `String`), a profiler (`P`, `Arc<P>`, `Arc<dyn Profiler>`), or an \
            `Option` of one of these"
)]
pub trait IntoProfiler {
    /// The profiler.
    ///
    /// # Errors
    ///
    /// [`UnknownProfiler`] for a name that is none of [`PROFILER_NAMES`].
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, UnknownProfiler>;
}

impl<P: Profiler + 'static> IntoProfiler for P {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        Ok(with_run(Arc::new(self)))
    }
}

impl<P: Profiler + 'static> IntoProfiler for Arc<P> {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        Ok(with_run(self))
    }
}

impl IntoProfiler for Arc<dyn Profiler> {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        Ok(with_run(self))
    }
}

impl IntoProfiler for &str {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        match self.trim().to_ascii_lowercase().as_str() {
            "simple" => SimpleProfiler::new().into_profiler(),
            "advanced" => AdvancedProfiler::new().into_profiler(),
            "tensor" | "pytorch" => TensorProfiler::new().into_profiler(),
            "nvtx" => NvtxProfiler::new().into_profiler(),
            "none" => PassThroughProfiler::new().into_profiler(),
            _ => Err(UnknownProfiler { name: self.to_owned() }),
        }
    }
}

impl IntoProfiler for String {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        self.as_str().into_profiler()
    }
}

impl IntoProfiler for &String {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        self.as_str().into_profiler()
    }
}

/// `None` measures nothing.
impl<P: IntoProfiler> IntoProfiler for Option<P> {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        match self {
            Some(profiler) => profiler.into_profiler(),
            None => PassThroughProfiler::new().into_profiler(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvtx::EmitNvtx;
    use crate::{Interest, ProfilerExt};

    #[test]
    fn every_listed_name_selects_in_any_case() {
        for name in PROFILER_NAMES {
            assert!(name.into_profiler().is_ok(), "{name}");
            assert!(name.to_uppercase().into_profiler().is_ok(), "{name}");
        }
        let own: Arc<dyn Profiler> = Arc::new(PassThroughProfiler);
        assert!(own.into_profiler().is_ok());
    }

    /// What was chosen, told by what it is interested in, or what keeps it from being a profiler.
    fn chosen(profiler: impl IntoProfiler) -> Result<Interest, UnknownProfiler> {
        profiler.into_profiler().map(|profiler| profiler.interest())
    }

    #[test]
    fn an_option_of_whatever_selects_selects() {
        let advanced = Ok(Interest::ACTIONS | Interest::FUNCTIONS);
        let nothing = Ok(Interest::NONE);
        assert_eq!(chosen(Some("advanced")), advanced);
        assert_eq!(chosen(None::<&str>), nothing);
        assert_eq!(chosen(Some(String::from("Advanced"))), advanced);
        assert_eq!(chosen(Some(&String::from("advanced"))), advanced);
        assert_eq!(chosen(None::<String>), nothing);
        assert_eq!(chosen(Some(AdvancedProfiler::new())), advanced);
        assert_eq!(chosen(Some(Arc::new(AdvancedProfiler::new()))), advanced);
        let shared: Arc<dyn Profiler> = Arc::new(AdvancedProfiler::new());
        assert_eq!(chosen(Some(shared)), advanced);
        assert_eq!(chosen(None::<Arc<dyn Profiler>>), nothing);
        assert_eq!(
            chosen(Some(String::from("smiple"))),
            Err(UnknownProfiler { name: "smiple".into() })
        );
    }

    #[test]
    fn what_was_chosen_emits_ranges_too() {
        let chosen = "simple".into_profiler().expect("a name").emit_nvtx();
        drop(chosen.profile("an action"));
        assert!(chosen.summary().contains("an action"));
        let shared = Arc::new(SimpleProfiler::new());
        drop(shared.clone().emit_nvtx().profile("an action"));
        assert!(shared.summary().contains("an action"));
        assert!(chosen.report().is_some(), "the report is that of the profiler itself");
    }

    #[test]
    fn a_typo_lists_the_choices() {
        let error = "smiple".into_profiler().err().expect("no such profiler");
        assert_eq!(
            error.to_string(),
            "there is no profiler named \"smiple\": use one of \"simple\", \"advanced\", \
             \"tensor\", \"pytorch\", \"nvtx\", \"none\", None, or a profiler of your own"
        );
    }
}
