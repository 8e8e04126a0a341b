//! `tracing` spans as actions (feature `tracing`).
//!
//! Many crates carry spans already: the models of `candle-transformers`, servers, data loaders.
//! With [`ProfilerLayer`] in the program's subscriber each span is a row below the action that it
//! is entered in, measured from enter to exit: of an asynchronous span only the polls.
//!
//! Install the subscriber **before the model is built**: a span belongs to the subscriber that was
//! there when it was made, and models make theirs once, when they are constructed.
//!
//! ```
//! use std::sync::Arc;
//!
//! use mlprof_core::prelude::*;
//! use mlprof_core::tracing_layer::ProfilerLayer;
//! use tracing_subscriber::filter::filter_fn;
//! use tracing_subscriber::prelude::*;
//!
//! struct Block {
//!     span: tracing::Span,
//! }
//!
//! // The filter is not needed; it spares other layers' events the way through this one.
//! let spans = ProfilerLayer::new().with_filter(filter_fn(|metadata| metadata.is_span()));
//! let subscriber = tracing_subscriber::registry().with(spans);
//! # // A real program: `subscriber.init();`
//! # let _subscriber = tracing::subscriber::set_default(subscriber);
//!
//! let block = Block { span: tracing::info_span!("attention") };
//! let profiler = Arc::new(AdvancedProfiler::new());
//! let active = activate(profiler.clone());
//! {
//!     let _scope = mlprof_core::profile!("forward");
//!     let _enter = block.span.enter();
//! }
//! drop(active);
//! assert!(profiler.summary().contains("attention"));
//! ```

mod modules;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing_core::span::{Attributes, Id};
use tracing_core::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::active::{ActiveScope, interest};
use mlprof_events::SourceLocation;
use mlprof_events::{Action, ActionKind, Interest};
use modules::Modules;

/// A layer that measures spans with the active profiler, as actions of kind
/// [`Span`](ActionKind::Span) under the span's own name and `file:line`.
///
/// Spans are measured while a profiler is active that wants [`Interest::FUNCTIONS`], as the Advanced
/// one does; with [`as_actions`](Self::as_actions), while any is. A span that was entered before, or under another profiler, is not stopped in this one.
///
/// The layer decides nothing about what other layers see: it enables no span that a filter turned
/// off, and disables none.
///
/// *Cost*: one relaxed load per enter when no such profiler is active, besides what `tracing`
/// itself costs (some 100 ns per span); otherwise some 20 ns besides the profiler's own.
pub struct ProfilerLayer {
    /// Span ids are unique within one subscriber only, and a program may have several.
    number: u64,
    /// What a profiler must want to hear of spans.
    interest: Interest,
    /// If spans are the modules of a model.
    modules: Option<Modules>,
}

impl ProfilerLayer {
    /// A layer for one subscriber.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { number, interest: Interest::FUNCTIONS, modules: None }
    }

    /// Tells of spans as of actions: profilers that do not look below actions, as the Simple one,
    /// get a row per name of a span, too.
    #[must_use]
    pub fn as_actions(mut self) -> Self {
        self.interest = Interest::ACTIONS;
        self
    }

    /// Tells of spans as of the modules of a model, for every profiler: the layers of a model that
    /// carries spans are seen without a change to it.
    ///
    /// The row is `[module]Span: {path}`, with the spans around as the path. Where a span has several of one
    /// name in it, as those of the layers of a kind, each is a module of its own, numbered from 0 in the
    /// order in which they first ran:
    ///
    /// ```
    /// use mlprof_core::prelude::*;
    /// use mlprof_core::tracing_layer::ProfilerLayer;
    /// use tracing_subscriber::prelude::*;
    ///
    /// struct Layer { span: tracing::Span }
    /// impl Layer {
    ///     fn new() -> Self { Self { span: tracing::info_span!("layer") } }
    ///     fn forward(&self) { let _enter = self.span.enter(); }
    /// }
    ///
    /// let subscriber = tracing_subscriber::registry().with(ProfilerLayer::new().as_modules());
    /// # // A real program: `subscriber.init();`
    /// # let _subscriber = tracing::subscriber::set_default(subscriber);
    /// let (first, second) = (Layer::new(), Layer::new());
    /// let profiler = std::sync::Arc::new(SimpleProfiler::new());
    /// let active = activate(profiler.clone());
    /// first.forward();
    /// second.forward();
    /// drop(active);
    /// assert!(profiler.summary().contains("[module]Span: layer.0"));
    /// assert!(profiler.summary().contains("[module]Span: layer.1"));
    /// ```
    ///
    /// *Cost* of an enter while a profiler is active: some 50 ns more.
    #[must_use]
    pub fn as_modules(mut self) -> Self {
        self.interest = Interest::ACTIONS;
        self.modules = Some(Modules::default());
        self
    }
}

impl Default for ProfilerLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ProfilerLayer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ProfilerLayer").finish_non_exhaustive()
    }
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for ProfilerLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, _id: &Id, _context: Context<'_, S>) {
        if let Some(modules) = &self.modules {
            modules.made(attributes.metadata());
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !interest().contains(self.interest) {
            return;
        }
        let Some(action) = self.action(id, &context) else {
            return;
        };
        let scope = ActiveScope::open(|| action, self.interest);
        if scope.is_open() {
            remember(OpenSpan { layer: self.number, id: id.into_u64(), action, scope });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let (Some(modules), Some(span)) = (&self.modules, context.span(&id)) {
            modules.gone(&span, self.number);
        }
    }

    fn on_exit(&self, id: &Id, _context: Context<'_, S>) {
        drop(take(self.number, id.into_u64()));
    }
}

impl ProfilerLayer {
    fn action<S>(&self, id: &Id, context: &Context<'_, S>) -> Option<Action>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        match &self.modules {
            None => context.metadata(id).map(action_of),
            Some(modules) => {
                let span = context.span(id)?;
                Some(modules.action(&span, self.number, innermost(self.number)))
            }
        }
    }
}

/// A span that this thread is in.
struct OpenSpan {
    layer: u64,
    id: u64,
    action: Action,
    /// Stops the action when dropped, in the profiler that started it.
    scope: ActiveScope,
}

thread_local! {
    /// In the order of entering; a span entered twice is there twice. An enter and its exit
    /// happen on one thread: that is how `tracing` works.
    static OPEN: RefCell<Vec<OpenSpan>> = const { RefCell::new(Vec::new()) };
}

fn remember(span: OpenSpan) {
    // A thread that is going away, or a profiler that enters spans of its own: not measured.
    let _ = OPEN.try_with(|open| open.try_borrow_mut().map(|mut open| open.push(span)));
}

/// What the innermost open span is called that `layer` told of.
fn innermost(layer: u64) -> Option<Action> {
    OPEN.try_with(|open| {
        let open = open.try_borrow().ok()?;
        open.iter().rfind(|span| span.layer == layer).map(|span| span.action)
    })
    .ok()
    .flatten()
}

/// The latest enter of a span: nearly always the last one, but spans may be left in any order.
fn take(layer: u64, id: u64) -> Option<ActiveScope> {
    OPEN.try_with(|open| {
        let mut open = open.try_borrow_mut().ok()?;
        let position = open.iter().rposition(|span| span.layer == layer && span.id == id)?;
        Some(open.remove(position).scope)
    })
    .ok()
    .flatten()
}

const KNOWN_SLOTS: usize = 128;

thread_local! {
    /// The actions of spans that this thread entered, by the address of their metadata, which
    /// never moves: without it every enter would ask the interner.
    static KNOWN: [Cell<(usize, Option<Action>)>; KNOWN_SLOTS] =
        const { [const { Cell::new((0, None)) }; KNOWN_SLOTS] };
}

fn action_of(metadata: &'static Metadata<'static>) -> Action {
    let address = std::ptr::from_ref(metadata) as usize;
    let slot = (address >> 3 ^ address >> 10) % KNOWN_SLOTS;
    let known = KNOWN.try_with(|known| known[slot].get());
    if let Ok((known_address, Some(action))) = known
        && known_address == address
    {
        return action;
    }
    let location =
        metadata.file().zip(metadata.line()).map(|(file, line)| SourceLocation { file, line });
    let action = Action::of_kind(ActionKind::Span, metadata.name(), location);
    let _ = KNOWN.try_with(|known| known[slot].set((address, Some(action))));
    action
}
