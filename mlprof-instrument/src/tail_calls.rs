//! Finds recursive calls in tail position.
//!
//! The compiler turns such a call into a jump to the start of the function. A million calls then
//! need no more stack than one. A hook that ends after the call would prevent this. The hook
//! therefore ends before the call, when the last argument has been computed. The recursive call is
//! then recorded separately, and its caller is the caller of the first call.
//!
//! Recognised calls are `name(…)` and `self::name(…)` in functions, and `self.name(…)`,
//! `Self::name(…)` and `Type::name(…)` in methods. If a function always reaches such a call, the
//! call must refer to another function of the same name. Mutual recursion of two functions is not
//! recognised.

use syn::visit::{self, Visit};
use syn::{
    Block, Expr, ExprAsync, ExprCall, ExprClosure, ExprMacro, ExprMethodCall, ExprReturn, ExprTry,
    Item, ReturnType, Stmt, StmtMacro, Type,
};

use super::edit::Edits;
use super::function::{Body, Function};
use super::path::FunctionPath;
use super::result::FunctionKind;

/// Recursive call at the end of a function.
pub(super) enum TailCall<'a> {
    Call(&'a ExprCall),
    Method(&'a ExprMethodCall),
}

/// Returns the recursive calls of `function` in tail position.
pub(super) fn find<'a>(function: &Function<'a>, path: &FunctionPath) -> Vec<TailCall<'a>> {
    let Body::Block(block) = function.body else { return Vec::new() };
    if function.is_async || function.signature.is_none() {
        return Vec::new();
    }
    let owner = path.segments.len().checked_sub(2).and_then(|place| path.segments.get(place));
    let is_method = function.kind == FunctionKind::Method;
    let mut search = Search {
        name: path.name(),
        owner: owner.filter(|_| is_method).map(String::as_str),
        has_other_end: false,
        found: Vec::new(),
    };
    search.visit_block(block);
    let returns_nothing = match function.returns {
        ReturnType::Default => true,
        ReturnType::Type(_, of) => matches!(&**of, Type::Tuple(tuple) if tuple.elems.is_empty()),
    };
    let is_certain = !search.has_other_end;
    search.block(block, returns_nothing, is_certain);
    search.found
}

/// Ends `guards`, with the innermost last, before each of the calls.
pub(super) fn end_before(calls: &[TailCall<'_>], guards: &[String], edits: &mut Edits) {
    use syn::spanned::Spanned;
    let close = |guard: &String| format!("crate::__mlprof::close({guard})");
    let closes: Vec<_> = guards.iter().rev().map(close).collect();
    for call in calls {
        let (arguments, called) = match call {
            TailCall::Call(call) => (&call.args, call.func.span()),
            TailCall::Method(call) => (&call.args, call.receiver.span()),
        };
        let (range, is_simple) = match arguments.last() {
            Some(last) => (last.span().byte_range(), is_simple(last)),
            None => (called.byte_range(), true),
        };
        // A block around the argument keeps its value unchanged, but borrows of temporaries may not
        // outlive the block.
        if is_simple {
            edits.insert(range.start, format!("({{ {}; ", closes.join("; ")));
            edits.close(range.end, " })");
        } else {
            edits.insert(range.start, "(");
            edits.close(range.end, format!(", {}).0", closes.join(", ")));
        }
    }
}

/// Returns `true` if the value involves no call and no borrow of a temporary.
fn is_simple(value: &Expr) -> bool {
    match value {
        Expr::Path(_) | Expr::Lit(_) | Expr::Closure(_) => true,
        Expr::Binary(of) => is_simple(&of.left) && is_simple(&of.right),
        Expr::Cast(of) => is_simple(&of.expr),
        Expr::Field(of) => is_simple(&of.base),
        Expr::Index(of) => is_simple(&of.expr) && is_simple(&of.index),
        Expr::Paren(of) => is_simple(&of.expr),
        Expr::Unary(of) => is_simple(&of.expr),
        Expr::Reference(of) => {
            matches!(&*of.expr, Expr::Path(_) | Expr::Field(_) | Expr::Index(_))
                && is_simple(&of.expr)
        }
        _ => false,
    }
}

struct Search<'a, 'p> {
    name: &'p str,
    /// Type that the method belongs to.
    owner: Option<&'p str>,
    /// Set when the function can also end at another position.
    has_other_end: bool,
    found: Vec<TailCall<'a>>,
}

impl<'a> Search<'a, '_> {
    /// Visits the last expression of a block. `is_certain` is set if the function always reaches
    /// it.
    fn block(&mut self, block: &'a Block, counts_statement: bool, is_certain: bool) {
        match block.stmts.last() {
            Some(Stmt::Expr(last, None)) => self.end(last, counts_statement, is_certain),
            Some(Stmt::Expr(last, Some(_))) if counts_statement => {
                self.end(last, true, is_certain);
            }
            _ => {}
        }
    }

    fn end(&mut self, expression: &'a Expr, counts_statement: bool, is_certain: bool) {
        match expression {
            Expr::Block(of) => self.block(&of.block, counts_statement, is_certain),
            Expr::Unsafe(of) => self.block(&of.block, counts_statement, is_certain),
            Expr::Paren(of) => self.end(&of.expr, counts_statement, is_certain),
            Expr::Group(of) => self.end(&of.expr, counts_statement, is_certain),
            Expr::If(of) => {
                self.block(&of.then_branch, counts_statement, false);
                if let Some((_, other)) = &of.else_branch {
                    self.end(other, counts_statement, false);
                }
            }
            Expr::Match(of) => {
                for arm in &of.arms {
                    self.end(&arm.body, counts_statement, false);
                }
            }
            Expr::Call(of) if !is_certain && self.is_itself(&of.func) => {
                self.found.push(TailCall::Call(of));
            }
            Expr::MethodCall(of) if !is_certain && self.is_own_method(of) => {
                self.found.push(TailCall::Method(of));
            }
            _ => {}
        }
    }

    fn is_itself(&self, called: &Expr) -> bool {
        let Expr::Path(called) = called else { return false };
        if called.qself.is_some() {
            return false;
        }
        let names: Vec<String> = called
            .path
            .segments
            .iter()
            .map(|segment| super::text::plain(&segment.ident.to_string()))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match (names.as_slice(), self.owner) {
            ([name] | ["self", name], None) => *name == self.name,
            ([of, name], Some(owner)) => *name == self.name && (*of == "Self" || *of == owner),
            _ => false,
        }
    }

    fn is_own_method(&self, call: &ExprMethodCall) -> bool {
        let is_self = matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self"));
        is_self && self.owner.is_some() && super::text::plain(&call.method.to_string()) == self.name
    }
}

/// Finds other ends of the function.
impl<'a> Visit<'a> for Search<'a, '_> {
    fn visit_expr_return(&mut self, of: &'a ExprReturn) {
        self.has_other_end = true;
        if let Some(value) = &of.expr {
            self.end(value, false, false);
        }
        visit::visit_expr_return(self, of);
    }

    fn visit_expr_try(&mut self, of: &'a ExprTry) {
        self.has_other_end = true;
        visit::visit_expr_try(self, of);
    }

    fn visit_expr_macro(&mut self, _: &'a ExprMacro) {
        self.has_other_end = true;
    }

    fn visit_stmt_macro(&mut self, _: &'a StmtMacro) {
        self.has_other_end = true;
    }

    // A `return` in these items does not end the function.
    fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}
    fn visit_expr_async(&mut self, _: &'a ExprAsync) {}
    fn visit_item(&mut self, _: &'a Item) {}
}
