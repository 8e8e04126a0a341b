//! The macros of a crate, and their calls.

use std::collections::HashMap;

use proc_macro2::{Ident, TokenStream};

use super::matcher::{self, Match};
use super::{expand, scan};
use crate::context::Context;
use crate::files::Folder;
use crate::text::plain;

/// How often macros may call each other in an expansion.
const DEEPEST: usize = 128;

/// At most so many tokens are made of a crate's macros: calls may double what they are given.
const MOST_TOKENS: usize = 300_000;
/// At most so many calls in macros' bodies are expanded: a body may call itself twice.
const MOST_NESTED: usize = 2_000;

/// The macros of a crate, and all calls of macros.
#[derive(Default)]
pub(crate) struct Found {
    definitions: Vec<Definition>,
    calls: HashMap<String, Vec<Call>>,
    /// Calls in place of items that have not been expanded, by name and number.
    waiting: Vec<(String, usize)>,
    /// How many tokens all expansions have made.
    made_tokens: usize,
    /// How many calls in macros' bodies have been expanded.
    nested: usize,
}

/// A `macro_rules!`.
pub(super) struct Definition {
    pub name: String,
    pub rules: Vec<scan::Rule>,
    pub is_exported: bool,
    /// The number of the file.
    pub source: usize,
    pub context: Context,
}

/// A call of a macro.
pub(super) struct Call {
    pub tokens: TokenStream,
    pub context: Context,
    /// Where its items go, if it stands in place of items.
    site: Option<CallSite>,
}

/// Where a call stands that makes items.
#[derive(Clone)]
pub(crate) struct CallSite {
    /// The number of the file.
    pub source: usize,
    /// Where modules are looked for that the macro declares.
    pub folder: Folder,
    pub kind: ItemKind,
    /// The line of the outermost call.
    pub line: u32,
    /// How many calls are around it.
    pub depth: usize,
}

/// Which items a macro makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// Those of a module or a block.
    Module,
    /// Those of an `impl` block.
    Implementation,
    /// Those of a trait.
    Trait,
}

/// The items that a call makes.
pub(crate) struct Expansion {
    /// The macro's name.
    pub name: String,
    /// `None` if the call cannot be expanded.
    pub tokens: Option<TokenStream>,
    pub context: Context,
    pub site: CallSite,
}

impl Found {
    /// All macros of the crate.
    pub(super) fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// All calls of a macro of this name.
    pub(super) fn calls_of(&self, name: &str) -> &[Call] {
        self.calls.get(name).map_or(&[], Vec::as_slice)
    }

    /// A `macro_rules!`.
    pub fn define(
        &mut self,
        name: &Ident,
        tokens: TokenStream,
        is_exported: bool,
        source: usize,
        context: Context,
    ) {
        let rules = scan::rules(tokens);
        let name = plain(&name.to_string());
        self.definitions.push(Definition { name, rules, is_exported, source, context });
    }

    /// Whether it is a macro of the crate.
    pub fn defines(&self, name: &str) -> bool {
        self.definitions.iter().any(|definition| definition.name == name)
    }

    /// A call of a macro; `site` if it stands in place of items.
    pub fn call(&mut self, call: &syn::Macro, context: &Context, site: Option<CallSite>) {
        let Some(name) = call.path.segments.last() else { return };
        let name = plain(&name.ident.to_string());
        let calls = self.calls.entry(name.clone()).or_default();
        if site.as_ref().is_some_and(|site| site.depth < DEEPEST) {
            self.waiting.push((name, calls.len()));
        }
        calls.push(Call { tokens: call.tokens.clone(), context: context.clone(), site });
    }

    /// Whether there are calls to expand.
    pub fn has_expansions(&self) -> bool {
        self.waiting.iter().any(|(name, _)| self.defines(name))
    }

    /// Expands the calls of the crate's macros that have not been expanded.
    pub fn expand(&mut self) -> Vec<Expansion> {
        let (known, others) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(name, _)| self.defines(name));
        self.waiting = others;
        let known: Vec<(String, usize)> = known;
        let mut left = MOST_TOKENS.saturating_sub(self.made_tokens);
        let mut nested = self.nested;
        let expansions = known.into_iter().filter_map(|(name, number)| {
            let call = self.calls.get(&name)?.get(number)?;
            let site = call.site.clone()?;
            nested += usize::from(site.depth > 0);
            let is_bounded = site.depth == 0 || nested <= MOST_NESTED;
            let tokens =
                is_bounded.then(|| self.expanded(&name, &call.tokens, &mut left)).flatten();
            Some(Expansion { name, tokens, context: call.context.clone(), site })
        });
        let expansions = expansions.collect();
        self.made_tokens = MOST_TOKENS - left;
        self.nested = nested;
        expansions
    }

    /// What the first rule makes of a call that it fits. Of several macros of one name, which may
    /// be under conditions, all that fit.
    fn expanded(&self, name: &str, call: &TokenStream, left: &mut usize) -> Option<TokenStream> {
        let mut all: Option<TokenStream> = None;
        for definition in self.definitions.iter().filter(|definition| definition.name == name) {
            for rule in &definition.rules {
                match matcher::bind(&rule.matcher, call) {
                    Match::Fits(bindings) => {
                        let tokens = expand::expand(&rule.body, &bindings, left)?;
                        all.get_or_insert_default().extend(tokens);
                        break;
                    }
                    Match::Differs => {}
                    Match::Unknown => return None,
                }
            }
        }
        all
    }
}
