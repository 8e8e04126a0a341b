//! What of a text must stay in its column, and where there is room before it.
//!
//! A panic, and `Location::caller`, tell line and column of an expression. So nothing may be inserted
//! before one on its line. But what stands there, up to the insertion, is mostly the head of a
//! function or of a closure, which does nothing: it goes to the end of what was written before, with
//! the insertion behind it, and blanks take its place.

use std::ops::Range;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, File, Item, ItemMacro, Macro};

use super::conditional::conditional_items;
use super::function::is_placeless;

/// The tokens of a text, and where a panic can happen.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// In their order; a comment of documentation is one.
    tokens: Vec<Range<usize>>,
    /// Where expressions begin of which a place is told, sorted.
    told: Vec<usize>,
    /// Where the text begins, behind a byte order mark and a `#!` line.
    beginning: usize,
}

/// A part of a line that goes elsewhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Move {
    /// What goes.
    pub from: Range<usize>,
    /// Behind what it goes.
    pub to: usize,
    /// A comment of documentation that ends there, up to the end of its line.
    pub behind_comment: Option<Range<usize>>,
}

impl Places {
    /// Those of `text`, which `tokens` and `file` were read from; `beginning` is where it begins.
    pub fn new(text: &str, tokens: TokenStream, file: &File, beginning: usize) -> Self {
        let mut places = Self { beginning, ..Self::default() };
        places.flatten(text, tokens);
        places.add(|told| told.visit_file(file));
        places
    }

    /// Adds the expressions of items that are written in a call of a macro.
    pub fn add_expansion(&mut self, items: &[Item]) {
        self.add(|told| items.iter().for_each(|item| told.visit_item(item)));
    }

    fn add(&mut self, find: impl FnOnce(&mut Told)) {
        let mut told = Told(std::mem::take(&mut self.told));
        find(&mut told);
        self.told = told.0;
        self.told.sort_unstable();
    }

    fn flatten(&mut self, text: &str, tokens: TokenStream) {
        // Attributes that were comments have more tokens than text.
        let mut until = 0;
        for token in tokens {
            let range = token.span().byte_range();
            if range.start < until {
                continue;
            }
            match &token {
                TokenTree::Punct(_) if text[range.clone()].starts_with('/') && range.len() > 1 => {
                    until = range.end;
                    self.tokens.push(range);
                }
                TokenTree::Group(group) if group.delimiter() != Delimiter::None => {
                    self.tokens.push(group.span_open().byte_range());
                    self.flatten(text, group.stream());
                    self.tokens.push(group.span_close().byte_range());
                }
                TokenTree::Group(group) => self.flatten(text, group.stream()),
                _ => self.tokens.push(range),
            }
        }
    }

    /// The end of the last token.
    pub fn end(&self) -> usize {
        self.tokens.last().map_or(self.beginning, |token| token.end)
    }

    /// What has to go before insertions at `offsets`, all of the line `line`, so that what follows them
    /// stays. `None` if nothing has to, or nothing can.
    pub fn moved(&self, text: &str, line: &Range<usize>, offsets: &[usize]) -> Option<Move> {
        let first_told = self.told.partition_point(|told| *told < line.start);
        let first_told = *self.told.get(first_told).filter(|told| line.contains(told))?;
        let until = offsets.iter().copied().filter(|offset| *offset <= first_told).max()?;
        let first = self.tokens.partition_point(|token| token.start < line.start);
        let from = self.tokens.get(first)?.start;
        let before = first.checked_sub(1).and_then(|before| self.tokens.get(before));
        let to = before.map_or(self.beginning, |before| before.end);
        // Something may reach into this line, or be in front of it there.
        if to >= line.start || until < from {
            return None;
        }
        let is_comment = |token: &&Range<usize>| text[(*token).clone()].starts_with("//");
        let behind_comment = before.filter(is_comment).cloned();
        Some(Move { from: from..until, to, behind_comment })
    }
}

/// Finds expressions of which a place is told.
struct Told(Vec<usize>);

impl Told {
    fn at(&mut self, span: Span) {
        // What macros write is not in the text.
        if !is_placeless(span) {
            self.0.push(span.byte_range().start);
        }
    }
}

impl<'ast> Visit<'ast> for Told {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            // Nothing of their own can go wrong in these; what is in them is looked at.
            Expr::Array(_)
            | Expr::Assign(_)
            | Expr::Block(_)
            | Expr::Break(_)
            | Expr::Cast(_)
            | Expr::Closure(_)
            | Expr::Const(_)
            | Expr::Continue(_)
            | Expr::Field(_)
            | Expr::Group(_)
            | Expr::If(_)
            | Expr::Let(_)
            | Expr::Lit(_)
            | Expr::Loop(_)
            | Expr::Match(_)
            | Expr::Paren(_)
            | Expr::Path(_)
            | Expr::Range(_)
            | Expr::Reference(_)
            | Expr::Repeat(_)
            | Expr::Return(_)
            | Expr::Struct(_)
            | Expr::Tuple(_)
            | Expr::Unsafe(_)
            | Expr::While(_) => {}
            Expr::ForLoop(of) => self.at(of.expr.span()),
            Expr::MethodCall(of) => {
                self.at(expression.span());
                self.at(of.method.span());
            }
            _ => self.at(expression.span()),
        }
        visit::visit_expr(self, expression);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.at(call.path.span());
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        let name = item.mac.path.segments.last().map(|segment| segment.ident.to_string());
        match name.as_deref() {
            // What is in it is where it is called.
            Some("macro_rules") => {}
            Some(name) if name.starts_with("cfg_") => {
                let items = conditional_items(&item.mac.tokens);
                items.iter().flatten().for_each(|item| self.visit_item(item));
            }
            _ => self.visit_macro(&item.mac),
        }
    }
}
