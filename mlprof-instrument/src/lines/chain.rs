//! Chains of method calls, `?`, `.await` and fields.

use syn::Expr;
use syn::spanned::Spanned;

use super::expressions::{attributes_of, is_computed};
use super::walk::{Walker, line_of};

/// Wrapper around a link of a chain whose next link is on another line.
struct Wrap<'e> {
    inner: &'e Expr,
    /// Point that begins when the value is available.
    point: Option<u32>,
    is_awaited: bool,
}

impl Walker<'_> {
    /// Visits an expression with several links.
    pub(super) fn chain(&mut self, outermost: &Expr) {
        let mut links = vec![outermost];
        while let Some(inner) = links.last().and_then(|link| inner_of(link)) {
            links.push(inner);
        }
        links.reverse();
        let (root, links) = (links[0], &links[1..]);
        // The insertions around an expression must precede those inside it.
        let current = self.current;
        let wraps: Vec<_> = links.iter().map(|link| self.wrap_of(link)).collect();
        for wrap in wraps.iter().rev().flatten() {
            self.insert_wrap(wrap);
        }
        self.current = current;
        self.expression(root);
        for (link, wrap) in links.iter().zip(wraps) {
            if let Some(point) = wrap.and_then(|wrap| wrap.point) {
                self.current = Some(point);
            }
            match link {
                Expr::MethodCall(call) => self.arguments(call.args.iter()),
                Expr::Index(of) => self.expression(&of.index),
                _ => {}
            }
        }
    }

    /// Returns the wrapper that the receiver of a link needs, if any.
    fn wrap_of<'e>(&mut self, link: &'e Expr) -> Option<Wrap<'e>> {
        let (inner, line, is_awaited) = match link {
            Expr::MethodCall(of) => (&*of.receiver, line_of(of.method.span()), false),
            Expr::Await(of) => (&*of.base, line_of(of.await_token.span), self.is_async),
            _ => return None,
        };
        if !attributes_of(inner).is_empty() {
            return None;
        }
        // `.await` takes the value by move, even from a place expression.
        let can_begin = is_awaited || is_computed(inner);
        let begins = can_begin && self.current.is_some() && !self.is_marked(line);
        let point = begins.then(|| self.mark(line));
        (is_awaited || point.is_some()).then_some(Wrap { inner, point, is_awaited })
    }

    fn insert_wrap(&mut self, wrap: &Wrap<'_>) {
        let range = wrap.inner.span().byte_range();
        let (mut before, mut after) = (String::new(), String::new());
        if wrap.is_awaited {
            before.push_str("__mlprof_lines.polled(");
            after.push(')');
        }
        if let Some(point) = wrap.point {
            before.push_str(&format!("__mlprof_lines.then({point}, "));
            after.push(')');
        }
        self.before(range.start, before);
        self.after(range.end, after);
    }
}

/// Returns the receiver of a link.
fn inner_of(link: &Expr) -> Option<&Expr> {
    match link {
        Expr::MethodCall(of) => Some(&of.receiver),
        Expr::Try(of) => Some(&of.expr),
        Expr::Await(of) => Some(&of.base),
        Expr::Field(of) => Some(&of.base),
        Expr::Index(of) => Some(&of.expr),
        _ => None,
    }
}
