//! Measures `tracing` spans as actions (feature `tracing`).
//!
//! Many crates already contain spans, such as the models of `candle-transformers`, servers and data
//! loaders. Add [`ProfilerLayer`] to the program's subscriber to get one row per span, below the
//! enclosing action. A span is measured from enter to exit. For an asynchronous span, this includes
//! only its polls.
//!
//! Install the subscriber **before the model is built**. A span belongs to the subscriber that was
//! active when the span was created, and models create their spans once, during construction.
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
//! // The filter is optional. It keeps events of other layers from passing through this one.
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

/// Layer that measures spans with the active profiler. The actions have the kind
/// [`Span`](ActionKind::Span), and the span's name and `file:line`.
///
/// Spans are measured while the active profiler wants [`Interest::FUNCTIONS`], as the Advanced
/// profiler does. With [`as_actions`](Self::as_actions), every active profiler measures them. A
/// span that was entered earlier, or under another profiler, is not stopped in this one.
///
/// The layer does not affect other layers. It never enables a span that a filter has disabled, and
/// never disables one.
///
/// *Cost*: one relaxed load per enter when no such profiler is active, otherwise about 20 ns plus
/// the profiler's own cost. `tracing` itself adds about 100 ns per span.
pub struct ProfilerLayer {
    /// Number of the layer. Span ids are unique only within one subscriber, and a program may have
    /// several.
    number: u64,
    /// Interest that a profiler needs in order to receive spans.
    interest: Interest,
    /// Module state, if spans are reported as modules.
    modules: Option<Modules>,
}

impl ProfilerLayer {
    /// Creates a layer for one subscriber.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { number, interest: Interest::FUNCTIONS, modules: None }
    }

    /// Reports spans as actions. Profilers without details below actions, such as the Simple one,
    /// then also have one row per span name.
    #[must_use]
    pub fn as_actions(mut self) -> Self {
        self.interest = Interest::ACTIONS;
        self
    }

    /// Reports spans as modules of a model, to every profiler. The layers of a model with spans are
    /// then measured without changing the model.
    ///
    /// The row is `[module]Span: {path}`, where the path consists of the enclosing spans. A span
    /// may contain several spans of the same name, such as layers of one type. Each of these is a
    /// separate module, numbered from 0 in the order of first execution:
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
    /// *Cost*: about 50 ns more per enter while a profiler is active.
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

/// A span that this thread has entered.
struct OpenSpan {
    layer: u64,
    id: u64,
    action: Action,
    /// Dropping it stops the action in the profiler that started it.
    scope: ActiveScope,
}

thread_local! {
    /// Entered spans in order. A span entered twice is listed twice. `tracing` guarantees that an
    /// enter and its exit happen on the same thread.
    static OPEN: RefCell<Vec<OpenSpan>> = const { RefCell::new(Vec::new()) };
}

fn remember(span: OpenSpan) {
    // The span is not measured if the thread is being torn down, or if a profiler enters spans
    // itself.
    let _ = OPEN.try_with(|open| open.try_borrow_mut().map(|mut open| open.push(span)));
}

/// Returns the action of the innermost open span of `layer`.
fn innermost(layer: u64) -> Option<Action> {
    OPEN.try_with(|open| {
        let open = open.try_borrow().ok()?;
        open.iter().rfind(|span| span.layer == layer).map(|span| span.action)
    })
    .ok()
    .flatten()
}

/// Removes the latest enter of a span. It is usually the last entry, but spans may be exited in any
/// order.
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
    /// Cache of span actions on this thread, keyed by the address of the static span metadata.
    /// Without it, every enter would need a lookup in the interner.
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
