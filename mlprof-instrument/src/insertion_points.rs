//! Finds the parts of a text that must keep their column, and the room before them.
//!
//! Panics and `Location::caller` report the line and column of an expression. An insertion must
//! therefore not shift such an expression within its line. The text before it is mostly the head of
//! a function or closure, which can be moved. That head moves to the end of the previous code,
//! followed by the insertion, and blanks replace it.

use std::ops::Range;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, File, Item, ItemMacro, Macro};

use super::conditional::conditional_items;
use super::function::is_placeless;

/// Tokens of a text, and the positions at which a panic can happen.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Byte ranges of the tokens, in order. A documentation comment is one token.
    tokens: Vec<Range<usize>>,
    /// Sorted start offsets of expressions with an observable position.
    told: Vec<usize>,
    /// Start of the text, after a byte order mark and a `#!` line.
    beginning: usize,
}

/// Part of a line that moves to another position.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Move {
    /// Byte range to move.
    pub from: Range<usize>,
    /// Offset after which the part is placed.
    pub to: usize,
    /// Documentation comment that ends at the target position.
    pub behind_comment: Option<Range<usize>>,
}

impl Places {
    /// Collects the positions in `text`. `tokens` and `file` are the result of parsing it, and
    /// `beginning` is its start offset.
    pub fn new(text: &str, tokens: TokenStream, file: &File, beginning: usize) -> Self {
        let mut places = Self { beginning, ..Self::default() };
        places.flatten(text, tokens);
        places.add(|told| told.visit_file(file));
        places
    }

    /// Adds the expressions of items that are written in a macro call.
    pub fn add_expansion(&mut self, items: &[Item]) {
        self.add(|told| items.iter().for_each(|item| told.visit_item(item)));
    }

    fn add(&mut self, find: impl FnOnce(&mut PositionVisitor)) {
        let mut told = PositionVisitor(std::mem::take(&mut self.told));
        find(&mut told);
        self.told = told.0;
        self.told.sort_unstable();
    }

    fn flatten(&mut self, text: &str, tokens: TokenStream) {
        // A documentation comment is parsed into several attribute tokens with overlapping spans.
        // Only the first one is kept.
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

    /// Returns the end offset of the last token.
    pub fn end(&self) -> usize {
        self.tokens.last().map_or(self.beginning, |token| token.end)
    }

    /// Returns the part of `line` that must move before insertions at `offsets`, so that the
    /// following expressions keep their column. Returns `None` if no move is necessary or possible.
    pub fn moved(&self, text: &str, line: &Range<usize>, offsets: &[usize]) -> Option<Move> {
        let first_told = self.told.partition_point(|told| *told < line.start);
        let first_told = *self.told.get(first_told).filter(|told| line.contains(told))?;
        let until = offsets.iter().copied().filter(|offset| *offset <= first_told).max()?;
        let first = self.tokens.partition_point(|token| token.start < line.start);
        let from = self.tokens.get(first)?.start;
        let before = first.checked_sub(1).and_then(|before| self.tokens.get(before));
        let to = before.map_or(self.beginning, |before| before.end);
        // The previous token may extend into this line, or the insertion may precede the line's
        // first token.
        if to >= line.start || until < from {
            return None;
        }
        let is_comment = |token: &&Range<usize>| text[(*token).clone()].starts_with("//");
        let behind_comment = before.filter(is_comment).cloned();
        Some(Move { from: from..until, to, behind_comment })
    }
}

/// Visitor that finds expressions with an observable position.
struct PositionVisitor(Vec<usize>);

impl PositionVisitor {
    fn at(&mut self, span: Span) {
        // Tokens generated by a macro are not in the text.
        if !is_placeless(span) {
            self.0.push(span.byte_range().start);
        }
    }
}

impl<'ast> Visit<'ast> for PositionVisitor {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            // These expressions cannot panic themselves, but their parts are visited.
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
            // The code in a macro definition is located at the macro's calls.
            Some("macro_rules") => {}
            Some(name) if name.starts_with("cfg_") => {
                let items = conditional_items(&item.mac.tokens);
                items.iter().flatten().for_each(|item| self.visit_item(item));
            }
            _ => self.visit_macro(&item.mac),
        }
    }
}
