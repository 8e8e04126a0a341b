//! Lines that the program may skip or repeat.

use syn::spanned::Spanned;
use syn::{Block, Expr, ExprIf, ExprMatch, Label, Stmt};

use super::expressions::attributes_of;
use super::walk::{Loop, Walker, line_of};

impl Walker<'_> {
    pub(super) fn branches(&mut self, of: &ExprIf) {
        self.expression(&of.cond);
        self.alternative(|walker| walker.block(&of.then_branch));
        let Some((_, otherwise)) = &of.else_branch else { return };
        self.alternative(|walker| {
            let line = line_of(otherwise.span());
            if let Expr::If(_) = **otherwise
                && !walker.is_marked(line)
            {
                walker.braces(otherwise, line);
            }
            walker.expression(otherwise);
        });
    }

    pub(super) fn arms(&mut self, of: &ExprMatch) {
        self.expression(&of.expr);
        for arm in &of.arms {
            self.alternative(|walker| {
                let (body, line) = (&*arm.body, line_of(arm.body.span()));
                match body {
                    _ if walker.is_marked(line) || !attributes_of(body).is_empty() => {}
                    Expr::Block(block) if block.label.is_none() => {
                        let point = walker.mark(line);
                        let start = block.block.brace_token.span.open().byte_range().end;
                        walker.before(start, format!(" __mlprof_lines.at({point});"));
                    }
                    _ => walker.braces(body, line),
                }
                walker.expression(body);
            });
        }
    }

    /// Wraps an expression in a block that marks its line.
    fn braces(&mut self, expression: &Expr, line: u32) {
        let point = self.mark(line);
        self.around(expression.span(), format!("{{ __mlprof_lines.at({point}); "), " }");
    }

    pub(super) fn repeated(&mut self, label: Option<&Label>, header: Option<u32>, body: &Block) {
        let label = label.map(|label| label.name.ident.to_string());
        self.loops.push(Loop { label, header });
        self.alternative(|walker| walker.block(body));
        self.loops.pop();
        let Some(header) = header else { return };
        self.current = Some(header);
        let has_tail = match body.stmts.last() {
            Some(Stmt::Expr(_, semicolon)) => semicolon.is_none(),
            Some(Stmt::Macro(call)) => call.semi_token.is_none(),
            _ => false,
        };
        let separator = if has_tail { ";" } else { "" };
        let end = body.brace_token.span.close().byte_range().start;
        self.before(end, format!("{separator} __mlprof_lines.at({header}); "));
    }

    /// Returns the header of the loop that a `continue` continues.
    pub(super) fn header(&self, label: Option<String>) -> Option<u32> {
        let mut loops = self.loops.iter().rev();
        let target = match label {
            None => loops.next(),
            Some(_) => loops.find(|one| one.label == label),
        };
        target?.header
    }
}
