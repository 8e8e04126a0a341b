//! Finds the lines of a function.

use std::collections::HashMap;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, BinOp, Block, Expr, ExprClosure, Stmt};

use super::expressions::{attributes_of, is_assignment, is_computed};

/// Kinds of frames, as in mlprof-core's `lines::abi::frame_kind`.
pub(super) const CALL: u32 = 0;
const CLOSURE: u32 = 1;
pub(super) const ASYNC_CALL: u32 = 2;
const ASYNC_BLOCK: u32 = 3;

/// Returns the statement that opens a frame.
pub(super) fn frame(kind: u32) -> String {
    format!(" let __mlprof_lines = crate::__mlprof::Lines::enter(&__MLPROF_LINES, {kind}u32); ")
}

/// Text to insert before the code at an offset, or after the code that ends there.
pub(super) enum Insertion {
    Before(usize, String),
    After(usize, String),
}

/// Returns the line of each point, and the insertions.
pub(super) fn walk(source: &str, block: &Block, is_async: bool) -> (Vec<u32>, Vec<Insertion>) {
    let mut walker = Walker {
        source,
        points: Vec::new(),
        by_line: HashMap::new(),
        insertions: Vec::new(),
        marked: Vec::new(),
        current: None,
        loops: Vec::new(),
        is_async,
    };
    walker.block(block);
    (walker.points, walker.insertions)
}

pub(super) struct Walker<'a> {
    source: &'a str,
    points: Vec<u32>,
    by_line: HashMap<u32, u32>,
    insertions: Vec<Insertion>,
    /// Lines that have begun on every path to the current position.
    marked: Vec<u32>,
    /// Point of the current line.
    pub(super) current: Option<u32>,
    /// Enclosing loops, innermost last.
    pub(super) loops: Vec<Loop>,
    /// `true` if the innermost frame is async.
    pub(super) is_async: bool,
}

pub(super) struct Loop {
    pub(super) label: Option<String>,
    /// Point of the loop's header, if the header is evaluated repeatedly.
    pub(super) header: Option<u32>,
}

pub(super) fn line_of(span: Span) -> u32 {
    span.start().line as u32
}

fn spans_lines(span: Span) -> bool {
    span.start().line != span.end().line
}

impl Walker<'_> {
    pub(super) fn before(&mut self, offset: usize, text: String) {
        self.insertions.push(Insertion::Before(offset, text));
    }

    pub(super) fn after(&mut self, offset: usize, text: impl Into<String>) {
        self.insertions.push(Insertion::After(offset, text.into()));
    }

    /// Inserts text around an expression. Insertions around its parts must follow later.
    pub(super) fn around(&mut self, span: Span, before: String, after: impl Into<String>) {
        let range = span.byte_range();
        self.before(range.start, before);
        self.after(range.end, after);
    }

    fn point(&mut self, line: u32) -> u32 {
        let points = &mut self.points;
        *self.by_line.entry(line).or_insert_with(|| {
            points.push(line);
            points.len() as u32 - 1
        })
    }

    pub(super) fn is_marked(&self, line: u32) -> bool {
        self.marked.contains(&line)
    }

    /// Returns the point of a line that begins here for the first time.
    pub(super) fn mark(&mut self, line: u32) -> u32 {
        let point = self.point(line);
        self.marked.push(line);
        self.current = Some(point);
        point
    }

    /// Visits code that the program may skip.
    pub(super) fn alternative(&mut self, walk: impl FnOnce(&mut Self)) {
        let (marked, current) = (self.marked.len(), self.current);
        walk(self);
        self.marked.truncate(marked);
        self.current = current;
    }

    pub(super) fn block(&mut self, block: &Block) {
        for statement in &block.stmts {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Local(local) => {
                self.begin(&local.attrs, statement.span(), line_of(local.let_token.span));
                if let Some(init) = &local.init {
                    self.expression(&init.expr);
                    if let Some((_, diverge)) = &init.diverge {
                        self.alternative(|walker| walker.expression(diverge));
                    }
                }
            }
            Stmt::Item(_) => {}
            Stmt::Expr(expression, _) => {
                let (attributes, span) = (attributes_of(expression), expression.span());
                let line = match attributes.last() {
                    Some(last) => self.line_after(last.span().byte_range().end),
                    None => line_of(span),
                };
                self.begin(attributes, span, line);
                self.expression(expression);
            }
            Stmt::Macro(call) => {
                self.begin(&call.attrs, statement.span(), line_of(call.mac.path.span()));
            }
        }
    }

    /// Returns the line of the code after an attribute.
    fn line_after(&self, offset: usize) -> u32 {
        let (before, behind) = self.source.split_at_checked(offset).unwrap_or((self.source, ""));
        let blanks = behind.len() - behind.trim_start().len();
        let lines = |text: &str| text.matches('\n').count() as u32;
        1 + lines(before) + lines(&behind[..blanks])
    }

    /// Marks the start of a statement. The mark precedes the statement's attributes, and has the
    /// same `cfg` conditions.
    fn begin(&mut self, attributes: &[Attribute], span: Span, line: u32) {
        if self.is_marked(line) {
            return;
        }
        let Some(conditions) = self.conditions(attributes) else { return };
        let point = self.mark(line);
        let start = span.byte_range().start;
        self.before(start, format!("{conditions}__mlprof_lines.at({point}); "));
    }

    /// Returns the `cfg` attributes of a statement, or `None` if they cannot be repeated on one
    /// line.
    fn conditions(&self, attributes: &[Attribute]) -> Option<String> {
        let is_condition = |one: &&Attribute| one.path().is_ident("cfg");
        let texts = attributes.iter().filter(is_condition);
        let texts = texts.map(|one| self.source.get(one.span().byte_range()));
        let text = texts.collect::<Option<Vec<_>>>()?.join(" ");
        (!text.contains(['\n', '\r'])).then_some(text)
    }

    pub(super) fn expression(&mut self, expression: &Expr) {
        match expression {
            Expr::If(of) => self.branches(of),
            Expr::Match(of) => self.arms(of),
            Expr::Block(of) => self.block(&of.block),
            Expr::Unsafe(of) => self.block(&of.block),
            Expr::Loop(of) => self.repeated(of.label.as_ref(), None, &of.body),
            Expr::While(of) => {
                let header = self.point(line_of(of.while_token.span));
                self.expression(&of.cond);
                self.repeated(of.label.as_ref(), Some(header), &of.body);
            }
            Expr::ForLoop(of) => {
                let header = self.point(line_of(of.for_token.span));
                self.expression(&of.expr);
                self.repeated(of.label.as_ref(), Some(header), &of.body);
            }
            Expr::Continue(of) => {
                if let Some(header) =
                    self.header(of.label.as_ref().map(|label| label.ident.to_string()))
                {
                    self.around(of.span(), format!("{{ __mlprof_lines.at({header}); "), " }");
                }
            }
            Expr::Closure(of) => self.closure(of),
            Expr::Async(of) if spans_lines(of.span()) => {
                let start = of.block.brace_token.span.open();
                self.inner_frame(ASYNC_BLOCK, start.byte_range().end, line_of(start), |walker| {
                    walker.block(&of.block);
                });
            }
            Expr::Return(of) => self.optional(of.expr.as_deref()),
            Expr::Break(of) => self.optional(of.expr.as_deref()),
            Expr::Paren(of) => self.expression(&of.expr),
            Expr::Group(of) => self.expression(&of.expr),
            Expr::Let(of) => self.expression(&of.expr),
            Expr::Reference(of) => self.expression(&of.expr),
            Expr::Unary(of) => self.expression(&of.expr),
            Expr::Cast(of) => self.expression(&of.expr),
            Expr::Repeat(of) => self.expression(&of.expr),
            Expr::Assign(of) => {
                self.expression(&of.right);
                self.expression(&of.left);
            }
            Expr::Binary(of) => self.binary(of),
            Expr::Range(of) => {
                self.optional(of.start.as_deref());
                self.optional(of.end.as_deref());
            }
            Expr::Tuple(of) => self.arguments(of.elems.iter()),
            Expr::Array(of) => self.arguments(of.elems.iter()),
            Expr::Struct(of) => {
                let written = of.fields.iter().filter(|field| field.colon_token.is_some());
                self.arguments(written.map(|field| &field.expr));
                self.optional(of.rest.as_deref());
            }
            Expr::Call(of) => {
                self.expression(&of.func);
                self.arguments(of.args.iter());
            }
            Expr::MethodCall(_)
            | Expr::Try(_)
            | Expr::Await(_)
            | Expr::Field(_)
            | Expr::Index(_) => {
                self.chain(expression);
            }
            // These expressions compute no value, are opaque, or are evaluated at compile time.
            _ => {}
        }
    }

    fn optional(&mut self, expression: Option<&Expr>) {
        if let Some(expression) = expression {
            self.expression(expression);
        }
    }

    fn closure(&mut self, of: &ExprClosure) {
        // Names of the surrounding frame are not visible in the closure.
        if !spans_lines(of.span()) || of.constness.is_some() {
            return;
        }
        let is_async = of.asyncness.is_some();
        let kind = if is_async { ASYNC_BLOCK } else { CLOSURE };
        let line = line_of(of.body.span());
        match &*of.body {
            Expr::Block(body) if body.label.is_none() => {
                let start = body.block.brace_token.span.open().byte_range().end;
                self.inner_frame(kind, start, line, |walker| walker.block(&body.block));
            }
            // The async block has its own frame.
            Expr::Async(body) => self.expression(&Expr::Async(body.clone())),
            body if attributes_of(body).is_empty() => {
                let range = body.span().byte_range();
                self.before(range.start, "{".to_owned());
                self.inner_frame(kind, range.start, line, |walker| {
                    if !walker.is_marked(line) {
                        let point = walker.mark(line);
                        walker.before(range.start, format!("__mlprof_lines.at({point}); "));
                    }
                    walker.expression(body);
                });
                self.after(range.end, " }");
            }
            _ => {}
        }
    }

    /// Opens a frame at `start`, on a line that may already have begun.
    fn inner_frame(&mut self, kind: u32, start: usize, line: u32, walk: impl FnOnce(&mut Self)) {
        let mut text = frame(kind);
        let has_begun = self.is_marked(line);
        let loops = std::mem::take(&mut self.loops);
        let is_async = std::mem::replace(&mut self.is_async, kind == ASYNC_BLOCK);
        self.alternative(|walker| {
            walker.current = has_begun.then(|| walker.point(line));
            if let Some(point) = walker.current {
                text.push_str(&format!("__mlprof_lines.on({point}); "));
            }
            walker.before(start, text);
            walk(walker);
        });
        self.loops = loops;
        self.is_async = is_async;
    }

    fn binary(&mut self, of: &syn::ExprBinary) {
        self.expression(&of.left);
        let line = line_of(of.right.span());
        match of.op {
            BinOp::And(_) | BinOp::Or(_) => self.alternative(|walker| {
                if !walker.is_marked(line) && !matches!(*of.right, Expr::Let(_)) {
                    walker.within(&of.right, line, None);
                }
                walker.expression(&of.right);
            }),
            _ if is_assignment(&of.op) => self.arguments(std::iter::once(&*of.right)),
            _ => self.expression(&of.right),
        }
    }

    /// Marks the line of a value before the value is computed. The line `back` continues
    /// afterwards.
    fn within(&mut self, value: &Expr, line: u32, back: Option<u32>) {
        let point = self.mark(line);
        let back = back.unwrap_or(point);
        let before = format!("__mlprof_lines.within(__mlprof_lines.at({point}), ");
        self.around(value.span(), before, format!(", {back})"));
    }

    /// Visits values that are used together, in order.
    pub(super) fn arguments<'e>(&mut self, values: impl Iterator<Item = &'e Expr>) {
        let around = self.current;
        for value in values {
            self.argument(value, around);
            self.current = around;
        }
    }

    fn argument(&mut self, value: &Expr, around: Option<u32>) {
        if let Expr::Reference(of) = value
            && of.attrs.is_empty()
            && is_computed(&of.expr)
        {
            return self.argument(&of.expr, around);
        }
        let is_choice =
            matches!(value, Expr::Match(_) | Expr::If(_) | Expr::Unsafe(_) | Expr::Block(_));
        let line = line_of(value.span());
        if let Some(back) = around
            && (is_computed(value) || is_choice && spans_lines(value.span()))
            && attributes_of(value).is_empty()
        {
            if !self.is_marked(line) {
                self.within(value, line, Some(back));
            } else if spans_lines(value.span()) {
                self.around(value.span(), format!("__mlprof_lines.back({back}, "), ")");
            }
        }
        self.expression(value);
    }
}
