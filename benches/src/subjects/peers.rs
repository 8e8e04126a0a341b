//! Other profilers, each used as in its documentation and with optional costs disabled.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Duration;

use fastrace::prelude::{LocalSpan, Span, SpanContext, SpanRecord};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::harness::{Subject, time, work};

/// hotpath: a worker thread collects the threads' records in the background every 50 ms.
pub struct Hotpath(
    #[expect(dead_code, reason = "recording lasts as long as the guard")] hotpath::HotpathGuard,
);

impl Hotpath {
    /// Starts hotpath's worker. The report, the thread list and the server are disabled, because
    /// they would run in the background of all other subjects.
    pub fn new() -> Self {
        let builder = hotpath::HotpathGuardBuilder::new("benches");
        Self(builder.format(hotpath::Format::None).build())
    }
}

impl Subject for Hotpath {
    fn name(&self) -> &'static str {
        "hotpath"
    }

    /// Waits until the worker has caught up, so that it does not use a core during the next
    /// subject.
    fn end(&self) {
        std::thread::sleep(Duration::from_millis(60));
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| hotpath::measure_block!("training_step", work(call)))
    }
}

/// `tracing` with the registry and a layer that times spans and stores one record for each.
pub struct Tracing;

struct TimingLayer {
    clock: fn() -> u64,
}

struct EnteredAt(u64);

thread_local! {
    static SPANS: RefCell<Vec<(&'static str, u64, u64)>> = const { RefCell::new(Vec::new()) };
}

impl<S: tracing::Subscriber + for<'span> LookupSpan<'span>> Layer<S> for TimingLayer {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(EnteredAt(0));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(entered) = span.extensions_mut().get_mut::<EnteredAt>()
        {
            entered.0 = (self.clock)();
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let now = (self.clock)();
        if let Some(span) = context.span(id) {
            let start = span.extensions().get::<EnteredAt>().map_or(0, |entered| entered.0);
            SPANS.with_borrow_mut(|spans| spans.push((span.name(), start, now)));
        }
    }
}

impl Tracing {
    /// Installs a global subscriber, which is the fast case.
    pub fn new() -> Self {
        let layer = TimingLayer { clock: super::floor::ticks };
        let subscriber = tracing_subscriber::registry().with(layer);
        // The call fails if an earlier list of subjects has installed the same subscriber.
        let _ = tracing::subscriber::set_global_default(subscriber);
        Self
    }
}

impl Subject for Tracing {
    fn name(&self) -> &'static str {
        "tracing"
    }

    fn slice(&self, scopes: usize) -> Duration {
        SPANS.with_borrow_mut(|spans| {
            spans.clear();
            spans.reserve(scopes);
        });
        time(scopes, |call| {
            let _scope = tracing::info_span!("training_step").entered();
            work(call);
        })
    }
}

/// fastrace: local spans below a root span. Each slice has its own root, because spans beyond
/// 10,240 are dropped.
pub struct Fastrace;

struct Discard;

impl fastrace::collector::Reporter for Discard {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        black_box(spans);
    }
}

impl Fastrace {
    /// Starts fastrace's collector with a reporter that discards all spans.
    pub fn new() -> Self {
        fastrace::set_reporter(Discard, fastrace::collector::Config::default());
        Self
    }
}

impl Subject for Fastrace {
    fn name(&self) -> &'static str {
        "fastrace"
    }

    fn end(&self) {
        fastrace::flush();
    }

    fn slice(&self, scopes: usize) -> Duration {
        let root = Span::root("run_training_batch", SpanContext::random());
        let _parent = root.set_local_parent();
        time(scopes, |call| {
            let _scope = LocalSpan::enter_with_local_parent("training_step");
            work(call);
        })
    }
}

/// puffin: scopes inside an open scope. Otherwise, every scope would take the global lock.
pub struct Puffin;

impl Puffin {
    /// Enables puffin.
    pub fn new() -> Self {
        puffin::set_scopes_on(true);
        Self
    }
}

impl Subject for Puffin {
    fn name(&self) -> &'static str {
        "puffin"
    }

    fn end(&self) {
        puffin::GlobalProfiler::lock().new_frame();
    }

    fn slice(&self, scopes: usize) -> Duration {
        puffin::profile_scope!("run_training_batch");
        time(scopes, |call| {
            puffin::profile_scope!("training_step");
            work(call);
        })
    }
}
