//! Wraps the allocator of a program in a tracking allocator.
//!
//! A crate's `#[global_allocator]` is wrapped in place. A program without one gets a wrapper around
//! the system's allocator in its root file. While bit 512 of `MLPROF_WANTED` is set, the wrapper
//! calls the runtime for each allocation and each free. Otherwise it costs one relaxed load.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, ItemStatic, Macro, Meta, Type};

use super::edit::Edits;
use super::template::one_line;

const TRACKING: &str = include_str!("template/allocator.rs");
const SYSTEM: &str = include_str!("template/system_allocator.rs");
const COPIES: &str = include_str!("template/copies.rs");
const ATTRIBUTE: &str = "global_allocator";
/// Name of mlprof-core's own allocator type, which already counts allocations.
const OWN: &str = "TrackingAllocator";
const NAME: &str = "crate::__mlprof_allocator::Tracking";

/// Returns the one-line text that makes large copies visible; it belongs before the first item of a
/// program's root file. The text defines `memcpy` and `memmove`. They report copies of 64 KiB and
/// more by `mlprof_copied(bytes)`, while bit 512 of `MLPROF_WANTED` is set.
///
/// *Seen* are copies for which the compiler emits a call: clones of vectors and slices,
/// `copy_from_slice` and similar. Blocks that move when they grow are not seen, because the
/// allocator copies them. *Cost*: about 2 ns for each such call, including small ones. The text
/// only has an effect on Linux with the GNU C library.
pub fn copies_text() -> String {
    one_line(COPIES)
}

/// Returns `true` if a text may define an allocator. This check is cheap and allows false
/// positives.
pub fn may_have_allocator(text: &str) -> bool {
    text.contains(ATTRIBUTE)
}

/// Allocators found in a crate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocators {
    /// Number of wrapped allocators.
    pub wrapped: usize,
    /// Number of mlprof-core's own allocators, which already count allocations.
    pub own: usize,
    /// Number of allocators inside macro definitions. They are not wrapped, because another crate
    /// may call the macro.
    pub hidden: usize,
    /// Condition of each allocator as an argument of `cfg`. `None` if the allocator is
    /// unconditional, or if its condition is unknown.
    conditions: Vec<Option<String>>,
}

impl Allocators {
    /// Adds the allocators of another file of the crate.
    pub fn add(&mut self, other: Self) {
        self.wrapped += other.wrapped;
        self.own += other.own;
        self.hidden += other.hidden;
        self.conditions.extend(other.conditions);
    }

    /// Returns `true` if the crate has an allocator, possibly under a condition.
    pub fn is_any(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Returns the one-line text for the crate's root file, to be placed before the first item. It
    /// contains the wrapper type if an allocator was wrapped. With `is_program`, it also wraps the
    /// system's allocator in builds without another one. `is_program` is only for a program whose
    /// other crates have no allocator.
    pub fn root_text(&self, is_program: bool) -> String {
        let system = if is_program { self.system() } else { None };
        if self.wrapped == 0 && system.is_none() {
            return String::new();
        }
        one_line(TRACKING) + &system.unwrap_or_default()
    }

    /// Returns the text for the system's allocator, which is compiled only if the crate has no
    /// other allocator.
    fn system(&self) -> Option<String> {
        let conditions: Option<Vec<&str>> = self.conditions.iter().map(Option::as_deref).collect();
        let condition = match &conditions?[..] {
            [] => String::new(),
            others => format!("#[cfg(not(any({})))]", others.join(", ")),
        };
        Some(one_line(SYSTEM).replace("/*CONDITION*/", &condition))
    }
}

/// Wraps the allocators of one file. `conditions` are the `cfg` arguments under which the file
/// itself is compiled, taken from the declarations of its modules.
///
/// All statics with `#[global_allocator]` are found, including those under `cfg`, in `cfg_attr`, in
/// inline modules, and in calls of macros such as `cfg_if!`.
pub fn wrap(file: &File, conditions: &[String], edits: &mut Edits) -> Allocators {
    let mut search =
        Search { conditions: conditions.to_vec(), found: Allocators::default(), edits };
    search.visit_file(file);
    search.found
}

struct Search<'edits> {
    /// Conditions of the items around the current position.
    conditions: Vec<String>,
    found: Allocators,
    edits: &'edits mut Edits,
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let outside = self.conditions.len();
        self.conditions.extend(module.attrs.iter().filter_map(condition));
        visit::visit_item_mod(self, module);
        self.conditions.truncate(outside);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Macro(definition) if definition.mac.path.is_ident("macro_rules") => {
                if has_attribute(definition.mac.tokens.clone()) {
                    self.found.hidden += 1;
                    self.found.conditions.push(None);
                }
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        let Some(given) = item.attrs.iter().find_map(given_by) else { return };
        let own = item.attrs.iter().filter_map(condition).chain(given);
        let all: Vec<String> = self.conditions.iter().cloned().chain(own).collect();
        let condition = (!all.is_empty()).then(|| format!("all({})", all.join(", ")));
        self.found.conditions.push(condition);
        if is_own(&item.ty.to_token_stream()) {
            self.found.own += 1;
        } else {
            self.wrap(item.ty.span(), item.expr.span());
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
    }
}

impl Search<'_> {
    fn wrap(&mut self, allocator: Span, value: Span) {
        self.found.wrapped += 1;
        let (allocator, value) = (allocator.byte_range(), value.byte_range());
        self.edits.insert(allocator.start, format!("{NAME}<"));
        self.edits.close(allocator.end, ">");
        self.edits.insert(value.start, format!("{NAME}::around("));
        self.edits.close(value.end, ")");
    }

    /// Searches the tokens of a macro call for allocators. The tokens need not form complete items.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut is_marked = false;
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                    is_marked |= is_attribute(&group.stream());
                }
                TokenTree::Group(group) => {
                    self.tokens(group.stream());
                    // A visibility such as `pub(crate)` may stand between the attribute and
                    // `static`.
                    is_marked &= group.delimiter() == Delimiter::Parenthesis;
                }
                TokenTree::Ident(word) if word == "static" && is_marked => {
                    self.tokens_of_static(&tokens[index..]);
                    is_marked = false;
                }
                _ => {}
            }
        }
    }

    /// Wraps the allocator in the tokens `static NAME : TYPE = VALUE ;`.
    fn tokens_of_static(&mut self, tokens: &[TokenTree]) {
        let sign = |sign: char| move |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign);
        let Some(equals) = tokens.iter().position(sign('=')) else { return };
        let Some(end) = tokens.iter().position(sign(';')) else { return };
        let (Some(allocator), Some(value)) = (tokens.get(3..equals), tokens.get(equals + 1..end))
        else {
            return;
        };
        let (Some(first), Some(last)) = (allocator.first(), allocator.last()) else { return };
        let (Some(from), Some(until)) = (value.first(), value.last()) else { return };
        self.found.conditions.push(None);
        if is_own(&allocator.iter().cloned().collect()) {
            self.found.own += 1;
            return;
        }
        if let (Some(allocator), Some(value)) =
            (first.span().join(last.span()), from.span().join(until.span()))
        {
            self.wrap(allocator, value);
        }
    }
}

/// Returns the argument of a `cfg` attribute.
fn condition(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => Some(list.tokens.to_string()),
        _ => None,
    }
}

/// Returns `Some` if the attribute makes a static the global allocator. The inner value is the
/// condition of a `cfg_attr`.
fn given_by(attribute: &Attribute) -> Option<Option<String>> {
    if is_path_to_attribute(attribute.path()) {
        return Some(None);
    }
    let Meta::List(list) = &attribute.meta else { return None };
    if !list.path.is_ident("cfg_attr") || !has_attribute(list.tokens.clone()) {
        return None;
    }
    // The condition ends at the first comma, because commas inside it are within parentheses.
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
    let condition: TokenStream =
        list.tokens.clone().into_iter().take_while(|token| !is_comma(token)).collect();
    Some(Some(condition.to_string()))
}

fn is_path_to_attribute(path: &syn::Path) -> bool {
    path.segments.last().is_some_and(|last| last.ident == ATTRIBUTE)
}

/// Returns `true` if the tokens are the attribute, possibly as a path.
fn is_attribute(tokens: &TokenStream) -> bool {
    syn::parse2::<syn::Path>(tokens.clone()).is_ok_and(|path| is_path_to_attribute(&path))
}

/// Returns `true` if the tokens contain the attribute at any depth.
fn has_attribute(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == ATTRIBUTE,
        TokenTree::Group(group) => has_attribute(group.stream()),
        _ => false,
    })
}

/// Returns `true` if the type is mlprof-core's own allocator.
fn is_own(tokens: &TokenStream) -> bool {
    match syn::parse2::<Type>(tokens.clone()) {
        Ok(Type::Path(path)) => path.path.segments.last().is_some_and(|last| last.ident == OWN),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str) -> (String, Allocators) {
        let file = syn::parse_str(text).expect("a file");
        let mut edits = Edits::default();
        let found = wrap(&file, &[], &mut edits);
        (edits.apply(text), found)
    }

    #[test]
    fn type_and_value_are_wrapped_where_they_stand() {
        let text =
            "#[global_allocator]\npub static A: jem::Alloc<u8>\n  = jem::Alloc::<u8>::new(\n);\n";
        let (result, found) = wrapped(text);
        let expected = "#[global_allocator]\npub static A: \
                        crate::__mlprof_allocator::Tracking<jem::Alloc<u8>>\n  = \
                        crate::__mlprof_allocator::Tracking::around(jem::Alloc::<u8>::new(\n));\n";
        assert_eq!(result, expected);
        assert_eq!((found.wrapped, found.is_any()), (1, true));
        let root = found.root_text(true);
        assert!(root.contains("Tracking<A>") && !root.contains("System"), "{root}");
        assert!(!root.contains('\n'));
    }

    #[test]
    fn a_crate_without_one_gets_the_systems_if_it_is_a_program() {
        let (result, found) = wrapped("static A: u8 = 1;\nfn main() {}\n");
        assert_eq!(result, "static A: u8 = 1;\nfn main() {}\n");
        assert_eq!((found.is_any(), found.root_text(false).as_str()), (false, ""));
        assert!(found.root_text(true).contains("System"));
        assert!(!found.root_text(true).contains("cfg"));
    }

    #[test]
    fn conditions_are_turned_around() {
        let text =
            "#[cfg(unix)] mod m { #[cfg(feature = \"jem\")] #[global_allocator] static A: J = J; }
            #[cfg_attr(all(a, b), global_allocator)] static B: M = M;";
        let (_, found) = wrapped(text);
        assert_eq!(found.wrapped, 2);
        let root = found.root_text(true);
        let condition =
            "#[cfg(not(any(all(unix, feature = \"jem\"), all(all (a , b)))))]".replace(' ', "");
        assert!(root.replace(' ', "").contains(&condition), "{root}");
    }

    #[test]
    fn the_own_allocator_is_left_alone() {
        let text = "#[global_allocator] static A: allocation::TrackingAllocator<X> = \
                    allocation::TrackingAllocator::around(X);";
        let (result, found) = wrapped(text);
        assert_eq!(result, text);
        assert_eq!((found.own, found.wrapped), (1, 0));
        assert_eq!(found.root_text(true), "");
    }

    #[test]
    fn in_calls_of_macros_but_not_in_their_definitions() {
        let text =
            "cfg_if! { if #[cfg(a)] { #[global_allocator] pub(crate) static A: m::J<u8> = m::J; } }
            macro_rules! own { () => { #[global_allocator] static A: J = J; } }
            other! { #[inline] static B: J = J; }";
        let (result, found) = wrapped(text);
        let expected = text.replacen(
            "A: m::J<u8> = m::J;",
            "A: crate::__mlprof_allocator::Tracking<m::J<u8>> = \
             crate::__mlprof_allocator::Tracking::around(m::J);",
            1,
        );
        assert_eq!(result, expected);
        assert_eq!((found.wrapped, found.hidden), (1, 1));
        assert!(!found.root_text(true).contains("System"), "nobody knows whether there is one");
    }
}
