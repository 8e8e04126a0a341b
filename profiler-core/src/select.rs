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

/// Whatever can be passed to `.profiler(…)` of a trainer: a name, a profiler, or `None`.
///
/// In a process of [`mlprof run`](crate::spliced) the profiler of that run measures, too.
///
/// ```
/// use profiler_core::{IntoProfiler, SimpleProfiler};
///
/// "Simple".into_profiler()?;
/// SimpleProfiler::new().dirpath("logs").filename("run").into_profiler()?;
/// None.into_profiler()?;
/// let error = "smiple".into_profiler().err().expect("a typo");
/// assert!(error.to_string().contains(r#""simple", "advanced", "tensor", "pytorch", "nvtx", "none""#));
/// # Ok::<(), profiler_core::UnknownProfiler>(())
/// ```
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
            "none" => PassThroughProfiler.into_profiler(),
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
impl IntoProfiler for Option<&str> {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        self.unwrap_or("none").into_profiler()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_selects_in_any_case() {
        for name in PROFILER_NAMES {
            assert!(name.into_profiler().is_ok(), "{name}");
            assert!(name.to_uppercase().into_profiler().is_ok(), "{name}");
        }
        assert!(None.into_profiler().is_ok());
        assert!(Some("advanced").into_profiler().is_ok());
        let own: Arc<dyn Profiler> = Arc::new(PassThroughProfiler);
        assert!(own.into_profiler().is_ok());
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
