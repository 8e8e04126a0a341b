//! CUPTI as a hook: it collects while a profiler wants to know what devices do.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::EXTERNAL_KIND;
use super::collector::Collector;
use super::delivery::external_number;
use super::unavailable::Unavailable;
use crate::driver::Driver;
use mlprof_core::Interest;
use mlprof_core::hook::{self, Context, Instrumentation};

/// See the module.
pub(crate) struct Activity {
    collector: OnceLock<Result<Collector, Unavailable>>,
    /// A forked child has neither the reading thread nor CUDA.
    process: u32,
    is_collecting: AtomicBool,
}

thread_local! {
    /// CUPTI has a number of ours for this thread.
    static IS_PUSHED: Cell<bool> = const { Cell::new(false) };
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            collector: OnceLock::new(),
            process: std::process::id(),
            is_collecting: AtomicBool::new(false),
        }
    }

    fn collector(&self) -> Result<&Collector, Unavailable> {
        let load = || {
            let driver = Driver::get().map_err(|error| Unavailable::NoDriver(error.to_string()))?;
            // CUDA writes 12.9 as 12090.
            Collector::new(driver.version().ok().map(|version| version / 1000))
        };
        self.collector.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// What collects now, in this process.
    fn collecting(&self) -> Option<&Collector> {
        let is_it =
            self.is_collecting.load(Ordering::Relaxed) && self.process == std::process::id();
        if is_it { self.collector().ok() } else { None }
    }
}

impl Instrumentation for Activity {
    fn interest_changed(&self, interest: Interest) {
        if self.process != std::process::id() {
            return;
        }
        if !interest.contains(Interest::DEVICE) {
            if let Some(collector) = self.collecting() {
                collector.end();
            }
            self.is_collecting.store(false, Ordering::Relaxed);
            return;
        }
        let begun = self.collector().and_then(|collector| collector.begin(interest));
        self.is_collecting.store(begun.is_ok(), Ordering::Relaxed);
        if let Err(error) = begun {
            hook::note(&error.note());
        }
    }

    fn flush(&self) {
        let Some(collector) = self.collecting() else { return };
        if let Ok(driver) = Driver::get() {
            driver.wait_for_devices();
        }
        for missing in collector.flush() {
            hook::note(&missing);
        }
    }

    fn wants_context(&self) -> bool {
        self.is_collecting.load(Ordering::Relaxed)
    }

    /// What the thread calls from here on carries the context's number, so that a kernel is known to
    /// belong to its action even if its launch is not told of.
    fn context_changed(&self, context: Context) {
        let Some(collector) = self.collecting() else { return };
        let functions = collector.functions();
        let mut last = 0;
        if IS_PUSHED.replace(true) {
            // SAFETY: the place is ours.
            unsafe { (functions.pop_correlation)(EXTERNAL_KIND, &mut last) };
        }
        let number = external_number(collector.recording(), context);
        // SAFETY: takes any numbers.
        unsafe { (functions.push_correlation)(EXTERNAL_KIND, number) };
    }
}
