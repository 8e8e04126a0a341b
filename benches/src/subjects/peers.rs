//! Peers, each used as its documentation shows it and spared what a program need not pay.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Duration;

use fastrace::prelude::{LocalSpan, Span, SpanContext, SpanRecord};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::harness::{Subject, time, work};

/// hotpath: its worker drains the threads' records in the background, every 50 ms.
pub struct Hotpath(
    #[expect(dead_code, reason = "recording lasts as long as the guard")] hotpath::HotpathGuard,
);

impl Hotpath {
    /// Starts hotpath's worker. Without a report, and without the thread list and the server that
    /// would go on in the background of all other subjects.
    pub fn new() -> Self {
        let builder = hotpath::HotpathGuardBuilder::new("benches");
        Self(builder.format(hotpath::Format::None).build())
    }
}

impl Subject for Hotpath {
    fn name(&self) -> &'static str {
        "hotpath"
    }

    /// Lets the worker catch up, so that it does not take a core from the next subject.
    fn end(&self) {
        std::thread::sleep(Duration::from_millis(60));
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| hotpath::measure_block!("training_step", work(call)))
    }
}

/// `tracing` with the registry and a layer that times spans and keeps one record of each.
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
    /// Installs the subscriber for the process: its fast case.
    pub fn new() -> Self {
        let layer = TimingLayer { clock: super::floor::ticks };
        let subscriber = tracing_subscriber::registry().with(layer);
        // Fails if one is installed already: by an earlier list of subjects, and the same.
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

/// fastrace: local spans below a root, one root per slice (it drops what is over 10,240 spans).
pub struct Fastrace;

struct Discard;

impl fastrace::collector::Reporter for Discard {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        black_box(spans);
    }
}

impl Fastrace {
    /// Starts fastrace's collector with a reporter that discards.
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

/// puffin: scopes inside an open one, without which every scope would take its global lock.
pub struct Puffin;

impl Puffin {
    /// Turns puffin on.
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
