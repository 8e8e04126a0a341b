//! From what a user passes to `.profiler(…)` to a profiler.

use std::sync::Arc;

use crate::environment;
use crate::guarded::guarded;
use crate::multi::MultiProfiler;
use crate::profiler::accepted;
use crate::profiler_names::{by_name, check_repeated};
use crate::spliced::with_run;
use crate::watcher::with_watcher;
use crate::{Error, PassThroughProfiler, Profiler};

/// Whatever can be passed to `.profiler(…)` of a trainer: a name (`&str`, `String`), a profiler
/// (owned, in an `Arc` or as a `Box<dyn Profiler>`), an `Option` of any of these, of which `None`
/// measures nothing, or several of them: names joined by `+`, an array, a `Vec`, or a tuple.
/// [`MultiProfiler`] says how they go together.
///
/// Converting reads nothing but the argument. Trainers and [`Session`](crate::Session) then read
/// the environment: `MLPROF_PROFILER=simple`, or any other name or names, measures in place of
/// whatever was passed, `None` included; `MLPROF_PROFILER=none` turns measuring off.
/// `MLPROF_DIRPATH`, `MLPROF_FILENAME` and `MLPROF_SCHEDULE`
/// (`wait=1,warmup=1,active=3,repeat=2,skip_first=10`) take the place of the profilers' settings of
/// these names. A line on standard error reports it, once in a process. For a value that cannot be
/// read, a line on standard error says so and the program's own choice holds. A profiler that the
/// program [activates](crate::activate) itself is left alone. In a process of `mlprof run` the
/// profiler of that run measures, too.
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
/// assert!(error.to_string().contains(r#""simple", "advanced", "tensor", "pytorch", "numerics", "nvtx", "none""#));
/// # Ok::<(), mlprof_core::Error>(())
/// ```
///
/// A bare `None` does not say what it is an option of; the compiler wants `None::<&str>`. The name
/// `"none"` says the same.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a profiler nor the name of one",
    note = "pass a name (`&str`, `String`), a profiler (`P`, `Box<dyn Profiler>`, `Arc<P>`, `Arc<dyn Profiler>`), \
            an `Option` of one of these, or several: an array, a `Vec` or a tuple"
)]
pub trait IntoProfiler {
    /// The profiler.
    ///
    /// # Errors
    ///
    /// [`Error`] for a name that is not one of [`PROFILER_NAMES`](crate::PROFILER_NAMES), or that
    /// is there twice, and for a profiler with a schedule that would never record a step.
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error>;

    /// Adds the names that this selects profilers by, so that a list can refuse one that is there
    /// twice.
    #[doc(hidden)]
    fn add_names(&self, names: &mut Vec<String>) {
        let _ = names;
    }
}

/// Returns the profiler that measures where the program has chosen `own`: what the environment
/// names in its place, and besides the profilers of `mlprof run` and of watchers from outside.
/// Sessions call it, and plugins whose frameworks ask for the profiler before a session begins.
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

/// All of them; an empty one measures nothing. A name may be there once.
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

/// All of them; an empty one measures nothing. A name may be there once.
impl<P: IntoProfiler, const N: usize> IntoProfiler for [P; N] {
    fn into_profiler(self) -> Result<Arc<dyn Profiler>, Error> {
        Vec::from(self).into_profiler()
    }

    fn add_names(&self, names: &mut Vec<String>) {
        self.iter().for_each(|profiler| profiler.add_names(names));
    }
}

/// Refuses a list with a name that is there twice, as the names joined by `+` would be.
fn refuse_repeated_names(profilers: &impl IntoProfiler) -> Result<(), Error> {
    let mut names = Vec::new();
    profilers.add_names(&mut names);
    check_repeated(&names.join("+"))
}

/// Profilers of several types.
macro_rules! several_types {
    ($($type:ident $part:ident),+) => {
        /// All of them. A name may be there once.
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

    /// What was chosen, told by what it is interested in, or what keeps it from being a profiler.
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
            assert!(error.to_string().contains("named before"), "{error}");
        };
        refused(chosen(["simple", "simple"]), "simple+simple");
        refused(chosen(vec![Some("simple"), None, Some("Simple")]), "simple+Simple");
        refused(chosen(("tensor", String::from("pytorch"))), "tensor+pytorch");
        refused(chosen((["simple", "nvtx"], "simple")), "simple+nvtx+simple");
        refused(chosen(Some(["simple+advanced", "advanced"])), "simple+advanced+advanced");
    }
}
