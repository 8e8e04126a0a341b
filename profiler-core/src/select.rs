//! Conversion of the values that `.profiler(…)` accepts into a profiler.

use std::sync::Arc;

use crate::environment;
use crate::guarded::guarded;
use crate::multi::MultiProfiler;
use crate::profiler::accepted;
use crate::profiler_names::{by_name, check_repeated};
use crate::spliced::with_run;
use crate::watcher::with_watcher;
use crate::{Error, PassThroughProfiler, Profiler};

/// A value that can be passed to `.profiler(…)` of a trainer:
///
/// - a name (`&str` or `String`)
/// - a profiler, owned, in an `Arc` or as a `Box<dyn Profiler>`
/// - an `Option` of any of these, where `None` measures nothing
/// - several of them: names joined by `+`, an array, a `Vec` or a tuple
///
/// [`MultiProfiler`] documents how several profilers work together.
///
/// The conversion uses only the argument. Trainers and [`Session`](crate::Session) then read the
/// environment, which overrides the program:
///
/// - `MLPROF_PROFILER=simple`, or any other names, replaces the passed profiler, including `None`.
/// - `MLPROF_PROFILER=none` turns measuring off.
/// - `MLPROF_DIRPATH`, `MLPROF_FILENAME` and `MLPROF_SCHEDULE`
///   (`wait=1,warmup=1,active=3,repeat=2,skip_first=10`) override the profilers' settings of these
///   names.
///
/// One line on standard error reports the override, once per process. An invalid value is reported
/// on standard error, and the program's own choice applies. The environment does not affect a
/// profiler that the program [activates](crate::activate) itself. In a process started by `mlprof
/// run`, the profiler of that run also measures.
///
/// ```
/// use mlprof_core::{IntoProfiler, SimpleProfiler};
///
/// "Simple".into_profiler()?;
/// SimpleProfiler::new().dirpath("logs").filename("run").into_profiler()?;
/// let of_command_line: Option<String> = std::env::args().nth(1);
/// of_command_line.into_profiler()?;
/// "simple+nvtx".into_profiler()?;
/// ["simple", "tensor"].into_profiler()?;
/// (SimpleProfiler::new().detailed(), Some("advanced")).into_profiler()?;
/// let error = "smiple".into_profiler().expect_err("a typo");
/// assert!(error.to_string().contains(r#""simple", "advanced", "tensor", "pytorch""#));
/// # Ok::<(), mlprof_core::Error>(())
/// ```
///
/// A bare `None` does not have a known type, so write `None::<&str>`, or use the name `"none"`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a profiler nor the name of one",
    note = "pass a name (`&str`, `String`), a profiler (`P`, `Box<dyn Profiler>`, `Arc<P>`, `Arc<dyn Profiler>`), \
            an `Option` of one of these, or several: an array, a `Vec` or a tuple"
)]
pub trait IntoProfiler {
    /// Converts the value into a profiler.
    ///
    /// # Errors
    ///
    /// [`Error`] in three cases:
    ///
    /// - The name is not one of [`PROFILER_NAMES`](crate::PROFILER_NAMES).
    /// - The name occurs twice.
    /// - The profiler has a schedule that would never record a step.
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error>;

    /// Adds the profiler names in this value to `names`, so that a list can reject duplicates.
    #[doc(hidden)]
    fn add_names(&self, names: &mut Vec<String>) {
        let _ = names;
    }
}

/// Returns the profiler that measures when the program has chosen `own`. The environment may
/// replace it, and the profilers of `mlprof run` and of external watchers may be added to it.
/// Sessions call this. Plugins call it if their framework needs the profiler before a session
/// begins.
#[doc(hidden)]
pub fn resolve(own: Arc<dyn Profiler>) -> Arc<dyn Profiler> {
    let chosen = with_run(guarded(environment::over(own)));
    with_watcher(&chosen).unwrap_or(chosen)
}

impl<P: Profiler + 'static> IntoProfiler for P {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        accepted(Arc::new(self))
    }
}

impl<P: Profiler + 'static> IntoProfiler for Arc<P> {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        accepted(self)
    }
}

impl IntoProfiler for Box<dyn Profiler> {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        accepted(Arc::from(self))
    }
}

impl IntoProfiler for Arc<dyn Profiler> {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        accepted(self)
    }
}

impl IntoProfiler for &str {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        by_name(self)
    }

    fn add_names(&self, names: &mut Vec<String>) {
        names.push((*self).to_owned());
    }
}

impl IntoProfiler for String {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        self.as_str().into_profiler()
    }

    fn add_names(&self, names: &mut Vec<String>) {
        self.as_str().add_names(names);
    }
}

impl IntoProfiler for &String {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        self.as_str().into_profiler()
    }

    fn add_names(&self, names: &mut Vec<String>) {
        self.as_str().add_names(names);
    }
}

/// `None` measures nothing.
impl<P: IntoProfiler> IntoProfiler for Option<P> {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        match self {
            Some(profiler) => profiler.into_profiler(),
            None => PassThroughProfiler::new().into_profiler(),
        }
    }

    fn add_names(&self, names: &mut Vec<String>) {
        self.iter().for_each(|profiler| profiler.add_names(names));
    }
}

/// Measures with all of them. An empty list measures nothing, and duplicate names are rejected.
impl<P: IntoProfiler> IntoProfiler for Vec<P> {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        refuse_repeated_names(&self)?;
        let parts: Result<Vec<_>, _> = self.into_iter().map(P::into_profiler).collect();
        MultiProfiler::of(parts?).into_profiler()
    }

    fn add_names(&self, names: &mut Vec<String>) {
        self.iter().for_each(|profiler| profiler.add_names(names));
    }
}

/// Measures with all of them. An empty array measures nothing, and duplicate names are rejected.
impl<P: IntoProfiler, const N: usize> IntoProfiler for [P; N] {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        Vec::from(self).into_profiler()
    }

    fn add_names(&self, names: &mut Vec<String>) {
        self.iter().for_each(|profiler| profiler.add_names(names));
    }
}

/// Rejects duplicate names, exactly as for names joined by `+`.
fn refuse_repeated_names(profilers: &impl IntoProfiler) -> Result<(), Error> {
    let mut names = Vec::new();
    profilers.add_names(&mut names);
    check_repeated(&names.join("+"))
}

/// Implements [`IntoProfiler`] for tuples of different profiler types.
macro_rules! several_types {
    ($($type:ident $part:ident),+) => {
        /// Measures with all of them. Duplicate names are rejected.
        impl<$($type: IntoProfiler),+> IntoProfiler for ($($type,)+) {
            fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
                refuse_repeated_names(&self)?;
                let ($($part,)+) = self;
                vec![$($part.into_profiler()?),+].into_profiler()
            }

            fn add_names(&self, names: &mut Vec<String>) {
                let ($($part,)+) = self;
                $($part.add_names(names);)+
            }
        }
    };
}

several_types!(A first, B second);
several_types!(A first, B second, C third);
several_types!(A first, B second, C third, D fourth);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvtx::EmitNvtxExt;
    use crate::{AdvancedProfiler, Interest, ProfilerExt, SimpleProfiler};

    /// Returns the interest of the chosen profiler, or the error.
    fn chosen(profiler: impl IntoProfiler) -> Result<Interest, Error> {
        profiler.into_profiler().map(|profiler| profiler.interest())
    }

    fn unknown(name: &str) -> Error {
        Error::UnknownProfiler { name: name.to_owned(), text: name.to_owned() }
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
        assert_eq!(chosen(Some(String::from("smiple"))), Err(unknown("smiple")));
    }

    #[test]
    fn chosen_profilers_also_emit_ranges() {
        let chosen = "simple".into_profiler().expect("a name").emit_nvtx();
        drop(chosen.profile("an action"));
        assert!(chosen.summary().contains("an action"));
        let shared = Arc::new(SimpleProfiler::new());
        drop(shared.clone().emit_nvtx().profile("an action"));
        assert!(shared.summary().contains("an action"));
        assert!(chosen.report().is_some(), "the report is that of the profiler itself");
    }

    #[test]
    fn several_of_whatever_selects_select() {
        let both = Ok(Interest::ACTIONS | Interest::FUNCTIONS);
        assert_eq!(chosen(["simple", "advanced"]), both);
        assert_eq!(chosen(vec!["simple", "advanced"]), both);
        assert_eq!(chosen([Some("simple"), None]), Ok(Interest::ACTIONS));
        assert_eq!(chosen((SimpleProfiler::new(), "none")), Ok(Interest::ACTIONS));
        assert_eq!(chosen(Some((SimpleProfiler::new(), "advanced", None::<&str>))), both);
        let shared = || -> Arc<dyn Profiler> { Arc::new(SimpleProfiler::new()) };
        let own: Arc<dyn Profiler> = Arc::new(AdvancedProfiler::new());
        assert_eq!(chosen((shared(), own, "none", [shared()])), both);
        assert_eq!(chosen([""; 0]), Ok(Interest::NONE));
        assert_eq!(chosen(["simple", "smiple"]), Err(unknown("smiple")));
        let boxed = || -> Box<dyn Profiler> { Box::new(AdvancedProfiler::new()) };
        assert_eq!(chosen((boxed(), SimpleProfiler::new(), Some(boxed()))), both);
        let one = shared();
        let same = [one.clone()].into_profiler().expect("a profiler");
        assert!(Arc::ptr_eq(&one, &same), "one is itself");
    }

    #[test]
    fn a_name_that_is_in_a_list_twice_is_refused_as_in_a_text() {
        let refused = |profiler: Result<Interest, Error>, name: &str| {
            let error = profiler.expect_err("a name is there twice");
            let Error::RepeatedProfiler { text, .. } = &error else { panic!("{error}") };
            assert_eq!(text, name);
            assert!(error.to_string().contains("twice"), "{error}");
        };
        refused(chosen(["simple", "simple"]), "simple+simple");
        refused(chosen(vec![Some("simple"), None, Some("Simple")]), "simple+Simple");
        refused(chosen(("tensor", String::from("pytorch"))), "tensor+pytorch");
        refused(chosen((["simple", "nvtx"], "simple")), "simple+nvtx+simple");
        refused(chosen(Some(["simple+advanced", "advanced"])), "simple+advanced+advanced");
    }
}
