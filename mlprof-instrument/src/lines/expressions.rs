//! Properties of expressions.

use syn::{Attribute, BinOp, Expr};

pub(super) fn is_assignment(op: &BinOp) -> bool {
    use BinOp::{
        AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign,
        ShlAssign, ShrAssign, SubAssign,
    };
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

/// Returns `true` if the expression is a computed value and not a place. Such a value can be passed
/// through a function.
pub(super) fn is_computed(expression: &Expr) -> bool {
    match expression {
        Expr::MethodCall(_) | Expr::Try(_) | Expr::Await(_) => true,
        // A constructor call computes no value, and its borrows may outlive the statement.
        Expr::Call(of) => match &*of.func {
            Expr::Path(path) => path.path.segments.last().is_some_and(|name| {
                let name = name.ident.to_string();
                !name.trim_start_matches("r#").starts_with(char::is_uppercase)
            }),
            _ => true,
        },
        Expr::Macro(of) => of
            .mac
            .path
            .segments
            .last()
            .is_some_and(|name| name.ident == "vec" || name.ident == "format"),
        _ => false,
    }
}

/// Returns the attributes before an expression.
pub(super) fn attributes_of(expression: &Expr) -> &[Attribute] {
    match expression {
        Expr::Array(of) => &of.attrs,
        Expr::Assign(of) => &of.attrs,
        Expr::Async(of) => &of.attrs,
        Expr::Await(of) => &of.attrs,
        Expr::Binary(of) => &of.attrs,
        Expr::Block(of) => &of.attrs,
        Expr::Break(of) => &of.attrs,
        Expr::Call(of) => &of.attrs,
        Expr::Closure(of) => &of.attrs,
        Expr::Continue(of) => &of.attrs,
        Expr::ForLoop(of) => &of.attrs,
        Expr::If(of) => &of.attrs,
        Expr::Loop(of) => &of.attrs,
        Expr::Macro(of) => &of.attrs,
        Expr::Match(of) => &of.attrs,
        Expr::MethodCall(of) => &of.attrs,
        Expr::Return(of) => &of.attrs,
        Expr::Struct(of) => &of.attrs,
        Expr::Try(of) => &of.attrs,
        Expr::Tuple(of) => &of.attrs,
        Expr::Unsafe(of) => &of.attrs,
        Expr::While(of) => &of.attrs,
        _ => &[],
    }
}
