//! Reports spans as the modules of a model.

use std::collections::HashMap;
use std::sync::PoisonError;

use tracing_core::Metadata;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use mlprof_events::Action;
use mlprof_events::forking::{Mutex, MutexGuard};

/// Type name of modules that are identified by a span.
const TYPE: &str = "Span";

/// Modules of one layer. A model creates its spans once and keeps them, so each span is one module.
/// If a module contains several spans of the same name, these are numbered in the order of first
/// execution.
#[derive(Default)]
pub(super) struct Modules(Mutex<State>);

#[derive(Default)]
struct State {
    /// Number of existing spans by name.
    alive: HashMap<&'static str, usize>,
    /// Numbers in use, by parent and span name. `true` if the number is taken.
    numbers: HashMap<(Option<Action>, &'static str), Vec<bool>>,
    /// Span name of each module.
    names: HashMap<Action, &'static str>,
}

impl State {
    fn alive(&self, name: &str) -> usize {
        self.alive.get(name).copied().unwrap_or(0)
    }

    /// Returns `true` if `parent` may contain several spans of this name. This is an estimate, made
    /// when the first one is entered. It returns `false` if there are at most as many spans of this
    /// name as of the parent's name, because each parent then has one.
    fn are_several(&self, name: &str, parent: Option<Action>) -> bool {
        let parent = parent.and_then(|parent| self.names.get(&parent));
        self.alive(name) > parent.map_or(1, |parent| self.alive(parent).max(1))
    }
}

/// Modules of a span, stored in its extensions. There is one for each parent in which it was
/// entered.
#[derive(Default)]
struct Places(Vec<Place>);

struct Place {
    /// Number of the layer, because a subscriber may have several.
    layer: u64,
    parent: Option<Action>,
    number: usize,
    action: Action,
}

impl Modules {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new span.
    pub(super) fn made(&self, metadata: &'static Metadata<'static>) {
        *self.lock().alive.entry(metadata.name()).or_default() += 1;
    }

    /// Removes a span and frees its numbers. Code that creates a span for each call therefore
    /// reuses a few numbers.
    pub(super) fn gone<'span, R: LookupSpan<'span>>(&self, span: &SpanRef<'span, R>, layer: u64) {
        let name = span.name();
        let mut state = self.lock();
        if let Some(alive) = state.alive.get_mut(name) {
            *alive = alive.saturating_sub(1);
        }
        let extensions = span.extensions();
        let Some(Places(places)) = extensions.get::<Places>() else { return };
        for place in places.iter().filter(|place| place.layer == layer) {
            let numbers = state.numbers.get_mut(&(place.parent, name));
            if let Some(taken) = numbers.and_then(|numbers| numbers.get_mut(place.number)) {
                *taken = false;
            }
        }
    }

    /// Returns the module of `span` when it is entered in `parent`.
    pub(super) fn action<'span, R: LookupSpan<'span>>(
        &self,
        span: &SpanRef<'span, R>,
        layer: u64,
        parent: Option<Action>,
    ) -> Action {
        let is_it = |place: &&Place| place.layer == layer && place.parent == parent;
        let known = {
            let extensions = span.extensions();
            let places = extensions.get::<Places>();
            places.and_then(|places| places.0.iter().find(is_it)).map(|place| place.action)
        };
        known.unwrap_or_else(|| self.name(span, layer, parent))
    }

    #[cold]
    fn name<'span, R: LookupSpan<'span>>(
        &self,
        span: &SpanRef<'span, R>,
        layer: u64,
        parent: Option<Action>,
    ) -> Action {
        let name = span.name();
        let (number, is_numbered) = {
            let mut state = self.lock();
            let are_several = state.are_several(name, parent);
            let numbers = state.numbers.entry((parent, name)).or_default();
            let number = numbers.iter().position(|taken| !taken).unwrap_or(numbers.len());
            match numbers.get_mut(number) {
                Some(taken) => *taken = true,
                None => numbers.push(true),
            }
            (number, are_several || number > 0)
        };
        let mut path = String::new();
        if let Some((_, parents)) = parent.and_then(|parent| parent.name().split_once(": ")) {
            path = format!("{parents}.");
        }
        path.push_str(name);
        if is_numbered {
            path.push_str(&format!(".{number}"));
        }
        let action = Action::module(TYPE, &path);
        self.lock().names.insert(action, name);
        let mut extensions = span.extensions_mut();
        if extensions.get_mut::<Places>().is_none() {
            extensions.insert(Places::default());
        }
        if let Some(Places(places)) = extensions.get_mut::<Places>() {
            places.push(Place { layer, parent, number, action });
        }
        action
    }
}
