//! Profiler selection through environment variables, which take precedence over the program's
//! choice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};

use crate::output::say;
use crate::profiler_names::{by_name, check};
use crate::{Profiler, ProfilerExt};
use mlprof_events::environment::Environment;
use mlprof_events::forking::{Mutex, made_once};

/// A profiler of the program and its replacement.
struct Replacement {
    own: Weak<dyn Profiler>,
    by: Weak<dyn Profiler>,
}

/// Known replacements, so that a profiler that is shared or used in several stages is replaced only
/// once.
static REPLACEMENTS: Mutex<Vec<Replacement>> = Mutex::new(Vec::new());

/// Returns the profiler that measures when the program has chosen `own`: a replacement if the
/// environment names one, otherwise `own`.
pub(crate) fn over(own: Arc<dyn Profiler>) -> Arc<dyn Profiler> {
    let environment = Environment::get();
    if environment.is_silent() {
        return own;
    }
    let names = Names::get(environment);
    names.say_problems();
    let chosen = names.profiler.map_or_else(|| own.clone(), |name| replace(&own, name));
    if names.profiler.is_some() || own.is_enabled() {
        names.say_effect();
    }
    chosen
}

fn replace(own: &Arc<dyn Profiler>, name: &str) -> Arc<dyn Profiler> {
    if let Some(known) = find(own) {
        return known;
    }
    // The profiler is created outside the lock. If two threads arrive concurrently, the first
    // result is used.
    let Ok(by) = by_name(name) else { return own.clone() };
    let mut replacements = REPLACEMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = find_in(&replacements, own) {
        return known;
    }
    replacements.push(Replacement { own: Arc::downgrade(own), by: Arc::downgrade(&by) });
    by
}

fn find(own: &Arc<dyn Profiler>) -> Option<Arc<dyn Profiler>> {
    let mut replacements = REPLACEMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    replacements.retain(|one| one.by.strong_count() > 0);
    find_in(&replacements, own)
}

/// Returns the known replacement of `own`, or `own` itself if it already is a replacement.
fn find_in(replacements: &[Replacement], own: &Arc<dyn Profiler>) -> Option<Arc<dyn Profiler>> {
    let is = |known: &Weak<dyn Profiler>, it: &Arc<dyn Profiler>| {
        std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(it))
    };
    // A profiler of `mlprof run` or an external watcher may have been attached, so the profiler
    // inside is searched.
    let mut lone = own;
    while let [inner] = lone.parts() {
        lone = inner;
    }
    let is_replacement = |one: &Replacement| is(&one.by, own) || is(&one.by, lone);
    if replacements.iter().any(is_replacement) {
        return Some(own.clone());
    }
    replacements.iter().find(|one| is(&one.own, own)).and_then(|one| one.by.upgrade())
}

/// Settings read from the environment variables, and the messages about them.
struct Names {
    profiler: Option<&'static str>,
    /// Active settings as one line of text.
    effect: String,
    problems: Vec<String>,
    is_effect_said: AtomicBool,
    are_problems_said: AtomicBool,
}

impl Names {
    fn get(environment: &'static Environment) -> &'static Self {
        static NAMES: OnceLock<Names> = OnceLock::new();
        made_once(&NAMES, || Self::of(environment))
    }

    fn of(environment: &'static Environment) -> Self {
        let mut problems = environment.problems.clone();
        let profiler = environment.profiler.as_deref().filter(|name| {
            let checked = check(name);
            problems.extend(checked.as_ref().err().map(|it| format!("MLPROF_PROFILER: {it}")));
            checked.is_ok()
        });
        let mut said: Vec<String> = Vec::new();
        let mut say = |variable: &str, value: Option<String>| {
            said.extend(value.map(|value| format!("{variable}={value}")));
        };
        say("MLPROF_PROFILER", profiler.map(str::to_owned));
        let dirpath = environment.dirpath.as_ref();
        say("MLPROF_DIRPATH", dirpath.map(|path| path.display().to_string()));
        say("MLPROF_FILENAME", environment.filename.clone());
        say("MLPROF_SCHEDULE", environment.schedule.map(|schedule| schedule.to_string()));
        Self {
            profiler,
            effect: said.join(" "),
            problems,
            is_effect_said: AtomicBool::new(false),
            are_problems_said: AtomicBool::new(false),
        }
    }

    fn say_problems(&self) {
        if !self.are_problems_said.swap(true, Ordering::Relaxed) {
            for problem in &self.problems {
                say(format_args!("mlprof: {problem}; the program's own setting applies"));
            }
        }
    }

    fn say_effect(&self) {
        if !self.effect.is_empty() && !self.is_effect_said.swap(true, Ordering::Relaxed) {
            let effect = &self.effect;
            say(format_args!("mlprof: the environment overrides the program's settings: {effect}"));
        }
    }
}
