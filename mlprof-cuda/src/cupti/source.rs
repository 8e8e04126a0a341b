//! Instrumentation hook of CUPTI, which collects records while a profiler needs device data.

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

/// Hook that controls CUPTI.
pub(crate) struct Activity {
    collector: OnceLock<Result<Collector, Unavailable>>,
    /// Id of the process that created the hook. A forked child has neither the reader thread nor
    /// CUDA.
    process: u32,
    is_collecting: AtomicBool,
}

thread_local! {
    /// Set while CUPTI has an external correlation id of ours for this thread.
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
            // CUDA encodes version 12.9 as 12090.
            Collector::new(driver.version().ok().map(|version| version / 1000))
        };
        self.collector.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// Returns the collector if it is collecting in this process.
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

    /// Assigns the number of the open context to the thread's subsequent CUDA calls. A kernel is
    /// then attributed to its action even if its launch call is not reported.
    fn context_changed(&self, context: Context) {
        let Some(collector) = self.collecting() else { return };
        let functions = collector.functions();
        let mut last = 0;
        if IS_PUSHED.replace(true) {
            // SAFETY: the function writes one `u64` to `last`, an initialised local. This thread
            // has pushed an id before.
            unsafe { (functions.pop_correlation)(EXTERNAL_KIND, &mut last) };
        }
        let number = external_number(collector.recording(), context);
        // SAFETY: the function takes two integers and has no further preconditions.
        unsafe { (functions.push_correlation)(EXTERNAL_KIND, number) };
    }
}
