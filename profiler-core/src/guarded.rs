//! Guard around a profiler written by the program, which keeps its panics from reaching the
//! program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use crate::output::{Output, RenderedReport, say};
use crate::profiler::{Inner, has_internals, is_open, name_of};
use crate::report::Report;
use crate::{Action, NeverStarted, Profiler, ProfilerExt};
use mlprof_events::forking::Mutex;
use mlprof_events::panics::contain;
use mlprof_events::{
    DeviceEvent, Interest, Observation, OpStart, RegionSink, RegionSinks, RunContext, Stage,
    note_interest_change, uncounted,
};

/// Returns a guard that stops calling `profiler` after its first panic. Hooks call profilers inside
/// the program's allocator, in C callbacks and in the middle of the program's own code. A panic
/// must not unwind through any of these. mlprof's own profilers are returned unchanged, so they
/// have no extra cost. Each profiler has at most one guard at a time.
pub(crate) fn guarded(profiler: Arc<dyn Profiler>) -> Arc<dyn Profiler> {
    if contain(|| has_internals(&*profiler)).unwrap_or_default() {
        return profiler;
    }
    uncounted(|| {
        let mut guards = GUARDS.lock().unwrap_or_else(PoisonError::into_inner);
        guards.retain(|guard| guard.strong_count() > 0);
        let is_its = |guard: &Arc<Guarded>| {
            std::ptr::addr_eq(Arc::as_ptr(&guard.profiler), Arc::as_ptr(&profiler))
        };
        if let Some(known) = guards.iter().filter_map(Weak::upgrade).find(is_its) {
            return known;
        }
        let state = State { name: name_of(&*profiler), is_disabled: AtomicBool::new(false) };
        let guard = Arc::new(Guarded { profiler, state: Arc::new(state) });
        guards.push(Arc::downgrade(&guard));
        guard
    })
}

/// Guards that are still in use.
static GUARDS: Mutex<Vec<Weak<Guarded>>> = Mutex::new(Vec::new());

struct Guarded {
    profiler: Arc<dyn Profiler>,
    state: Arc<State>,
}

struct State {
    name: &'static str,
    /// Set when the profiler has panicked.
    is_disabled: AtomicBool,
}

impl State {
    /// Returns the result of `call`, or `otherwise` if this call or an earlier one panicked.
    #[inline]
    fn call<T>(&self, method: &str, otherwise: T, call: impl FnOnce() -> T) -> T {
        if self.is_disabled.load(Ordering::Relaxed) {
            return otherwise;
        }
        contain(call).unwrap_or_else(|message| {
            self.disable(method, &message);
            otherwise
        })
    }

    #[cold]
    fn disable(&self, method: &str, message: &str) {
        if !self.is_disabled.swap(true, Ordering::Relaxed) {
            note_interest_change();
            // This code may run inside the program's allocator.
            uncounted(|| {
                say(format_args!(
                    "mlprof: cannot continue with the profiler {}: its `{method}` panicked: \
                     {message}; it is disabled, and the program continues",
                    self.name
                ));
            });
        }
    }
}

impl Guarded {
    #[inline]
    fn call<'own, T>(
        &'own self,
        method: &str,
        otherwise: T,
        call: impl FnOnce(&'own dyn Profiler) -> T,
    ) -> T {
        self.state.call(method, otherwise, || call(&*self.profiler))
    }
}

impl Profiler for Guarded {
    fn start(&self, action: Action) {
        self.call("start", (), |own| own.start(action));
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.call("stop", Ok(()), |own| own.stop(action))
    }

    fn interest(&self) -> Interest {
        self.call("interest", Interest::NONE, |own| own.interest())
    }

    fn start_op(&self, op: &OpStart<'_>) {
        self.call("start_op", (), |own| own.start_op(op));
    }

    fn observe(&self, observation: &Observation<'_>) {
        let Observation::RegionOpened(sinks) = observation else {
            return self.call("observe", (), |own| own.observe(observation));
        };
        let of_own = RegionSinks::new();
        self.call("observe", (), |own| own.observe(&Observation::RegionOpened(&of_own)));
        for sink in of_own.into_inner() {
            sinks.add(Arc::new(GuardedSink { sink, state: self.state.clone() }));
        }
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        self.call("setup", (), |own| own.setup(stage, run));
    }

    fn teardown(&self, stage: Option<Stage>) {
        self.call("teardown", (), |own| own.teardown(stage));
    }

    fn summary(&self) -> String {
        self.call("summary", String::new(), |own| own.summary())
    }

    fn report(&self) -> Option<Report> {
        self.call("report", None, |own| own.report())
    }

    fn output(&self) -> Option<&Output> {
        self.call("output", None, |own| own.output())
    }

    fn describe(&self) {
        self.call("describe", (), |own| own.describe());
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl crate::profiler::Internals for Guarded {
    fn receivers(&self) -> &[Arc<dyn Profiler>] {
        std::slice::from_ref(&self.profiler)
    }

    fn guarded(&self) -> Option<&Arc<dyn Profiler>> {
        Some(&self.profiler)
    }

    fn is_enabled(&self) -> bool {
        self.call("interest", false, |own| own.is_enabled())
    }

    fn is_open(&self, action: Action) -> bool {
        self.call("inner", false, |own| is_open(own, action))
    }

    fn separates_sanity_check(&self) -> bool {
        self.call("inner", false, |own| own.separates_sanity_check())
    }

    fn render(&self) -> RenderedReport {
        let nothing = RenderedReport::new(String::new(), None);
        self.call("summary", nothing, |own| own.render())
    }
}

/// Sink for device regions with the same protection against panics.
struct GuardedSink {
    sink: Arc<dyn RegionSink>,
    state: Arc<State>,
}

impl RegionSink for GuardedSink {
    fn region(&self, event: &DeviceEvent, nanoseconds: u64) {
        self.state.call("region", (), || self.sink.region(event, nanoseconds));
    }

    fn lost(&self, why: &str) {
        self.state.call("lost", (), || self.sink.lost(why));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::SimpleProfiler;

    /// Panics in the method with this name.
    #[derive(Default)]
    struct Panics {
        method: &'static str,
        calls: AtomicUsize,
    }

    impl Panics {
        fn in_method(method: &'static str) -> Arc<dyn Profiler> {
            Arc::new(Self { method, ..Self::default() })
        }

        fn called(&self, method: &str) {
            self.calls.fetch_add(1, Ordering::Relaxed);
            assert!(method != self.method, "on purpose");
        }
    }

    impl Profiler for Panics {
        fn start(&self, _action: Action) {
            self.called("start");
        }

        fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
            self.called("stop");
            Ok(())
        }

        fn interest(&self) -> Interest {
            self.called("interest");
            Interest::ALL
        }

        fn observe(&self, _observation: &Observation<'_>) {
            self.called("observe");
        }

        fn inner(&self) -> Inner<'_> {
            self.called("inner");
            Inner::NONE
        }

        fn setup(&self, _stage: Stage, _run: &RunContext) {
            self.called("setup");
        }

        fn teardown(&self, _stage: Option<Stage>) {
            self.called("teardown");
        }

        fn summary(&self) -> String {
            self.called("summary");
            "a summary".to_owned()
        }

        fn report(&self) -> Option<Report> {
            self.called("report");
            None
        }
    }

    fn use_all_of(profiler: &dyn Profiler) {
        profiler.interest();
        profiler.setup(Stage::Fit, &RunContext::default());
        drop(profiler.profile("guarded"));
        profiler.observe(&Observation::Note("a note"));
        profiler.step();
        profiler.reason_to_stop();
        drop(profiler.render());
        profiler.teardown(None);
    }

    #[test]
    fn a_panic_of_any_method_disables_the_profiler_and_reaches_nobody() {
        let methods =
            ["start", "stop", "interest", "observe", "setup", "teardown", "summary", "report"];
        for method in methods {
            let own = Arc::new(Panics { method, ..Panics::default() });
            let guard = guarded(own.clone());
            use_all_of(&*guard);
            let calls = own.calls.load(Ordering::Relaxed);
            use_all_of(&*guard);
            assert_eq!(
                own.calls.load(Ordering::Relaxed),
                calls,
                "{method}: it is not called any more"
            );
            assert_eq!(guard.interest(), Interest::NONE, "{method}");
            assert!(name_of(&*guard).ends_with("Panics"), "{method}");
        }
    }

    #[test]
    fn one_that_does_not_panic_is_called_through_one_guard() {
        let own = Panics::in_method("none");
        let guard = guarded(own.clone());
        assert!(
            Arc::ptr_eq(&guard, &guarded(own.clone()))
                && Arc::ptr_eq(&guard, &guarded(guard.clone()))
        );
        assert_eq!((guard.interest(), &*guard.summary()), (Interest::ALL, "a summary"));
        let simple: Arc<dyn Profiler> = Arc::new(SimpleProfiler::new());
        assert!(Arc::ptr_eq(&simple, &guarded(simple.clone())), "ours are as they are");
    }
}
