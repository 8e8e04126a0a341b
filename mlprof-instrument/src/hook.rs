//! Generates the text of hooks.

use super::path::FunctionPath;
use super::result::HookKind;

/// Hook of a function, with the kind of measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hook {
    pub kind: HookKind,
    pub name: String,
    /// Expression that computes the part of the name after the framework.
    pub named_by: Option<String>,
    pub inputs: Inputs,
    /// Tensor types that the function may return, if outputs are reported.
    pub outputs: Vec<String>,
}

/// Inputs of an op that its hook reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inputs {
    None,
    /// All arguments that are tensors.
    Tensors,
    /// The values of these expressions.
    Expressions(Vec<String>),
}

/// Expressions used in a hook's text if only the compiler knows the name or the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MacroExpressions {
    /// Expression for the name.
    pub name: String,
    /// Expression to compare and its accepted values, if only some calls of the macro are selected.
    pub only: Option<(String, Vec<String>)>,
}

impl Hook {
    /// Creates a hook that is named after the function's path.
    pub fn function(path: &FunctionPath, kind: HookKind) -> Self {
        Self {
            kind,
            name: path.to_string(),
            named_by: None,
            inputs: Inputs::None,
            outputs: Vec::new(),
        }
    }

    /// Returns the statement at the start of the function. `number` distinguishes its guard from
    /// those of the function's other hooks.
    pub fn statement(
        &self,
        number: usize,
        line: u32,
        arguments: &[String],
    ) -> Result<String, String> {
        let name = match &self.named_by {
            None => &self.name,
            Some(_) => self.name.split('{').next().unwrap_or_default(),
        };
        let made = MacroExpressions { name: format!("{name:?}"), only: None };
        self.with(number, &made, &line.to_string(), arguments)
    }

    /// Returns the statement for a function that a macro generates.
    pub fn made_statement(
        &self,
        number: usize,
        made: &MacroExpressions,
        arguments: &[String],
    ) -> Result<String, String> {
        self.with(number, made, LINE, arguments)
    }

    fn with(
        &self,
        number: usize,
        made: &MacroExpressions,
        line: &str,
        arguments: &[String],
    ) -> Result<String, String> {
        if made.only.is_some() && matches!(self.inputs, Inputs::Expressions(_)) {
            return Err("a macro generates it, but the rule lists inputs".to_owned());
        }
        let bits = self.bits(made);
        let wrapper = match &self.inputs {
            Inputs::None => "",
            Inputs::Tensors => "Input",
            Inputs::Expressions(_) => "Value",
        };
        let inputs = self.reported_inputs(arguments)?;
        let (open, code) = if wrapper.is_empty() {
            (format!("open(&SITE, {bits})"), self.kind.code())
        } else {
            let tell = |input: &String| {
                format!("(&&&&crate::__mlprof::{wrapper}(&{input})).tell({WORDS}); ")
            };
            let all: String = inputs.iter().map(tell).collect();
            let tell = format!("|{WORDS}| {{ {TRAITS} {all}let _ = {WORDS}; }}");
            match &self.named_by {
                None => (format!("open_with(&SITE, {bits}, {tell})"), self.kind.code()),
                Some(name) => (format!("open_named(&SITE, {bits}, || {name}, {tell})"), NAMED_OP),
            }
        };
        let site = site(code, &made.name, line);
        let guard = guard(number);
        Ok(format!(
            " let {guard} = {{ static SITE: crate::__mlprof::Site = {site}; crate::__mlprof::{open} }};"
        ))
    }

    /// Returns the expressions of the reported inputs.
    pub fn reported_inputs(&self, arguments: &[String]) -> Result<Vec<String>, String> {
        match &self.inputs {
            Inputs::None => Ok(Vec::new()),
            Inputs::Tensors => Ok(arguments.to_vec()),
            Inputs::Expressions(inputs) => told(inputs, arguments),
        }
    }

    /// Returns the texts before and after the body of an async function.
    pub fn around_async(&self, line: u32, returns: Option<String>) -> (String, &'static str) {
        let made = MacroExpressions { name: format!("{:?}", self.name), only: None };
        self.around_polls(&made, &line.to_string(), returns)
    }

    /// Returns the texts before and after the body of an async function that a macro generates.
    pub fn around_made_async(
        &self,
        made: &MacroExpressions,
        returns: Option<String>,
    ) -> (String, &'static str) {
        self.around_polls(made, LINE, returns)
    }

    fn around_polls(
        &self,
        made: &MacroExpressions,
        line: &str,
        returns: Option<String>,
    ) -> (String, &'static str) {
        let hint = returns.map_or(String::new(), |returns| {
            format!(" if false {{ return crate::__mlprof::never::<{returns}>(); }}")
        });
        let (kind, name) = (self.kind, &made.name);
        let (first, later) =
            (site(kind.code(), name, line), site(kind.code_of_later_polls(), name, line));
        let before = format!(
            " crate::__mlprof::poll({{ static SITES: [crate::__mlprof::Site; 2] = [{first}, {later}]; \
             &SITES }}, {}, async move {{{hint}",
            self.bits(made)
        );
        (before, " }).await ")
    }

    /// Returns an expression for the bits that enable the hook. It evaluates to 0 if this call of
    /// the macro is not selected.
    fn bits(&self, made: &MacroExpressions) -> String {
        let bits = self.kind.bits();
        let Some((made, names)) = &made.only else { return bits.to_string() };
        let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(", ");
        let is_chosen = format!("crate::__mlprof::is_one_of({made}, &[{names}])");
        format!("const {{ if {is_chosen} {{ {bits} }} else {{ 0 }} }}")
    }
}

/// Expression for the line of the macro call.
const LINE: &str = "crate::__mlprof::__core::line!()";
/// Site code of an op with a name that is determined at run time.
const NAMED_OP: u32 = 6;
/// Variable that collects the words of the inputs.
const WORDS: &str = "__mlprof_words";
/// Imports of the traits that encode an input. The compiler selects one of their methods.
const TRAITS: &str = "#[allow(unused_imports)] \
     use crate::__mlprof::{First as _, Fallback as _, Second as _, Third as _};";

/// Returns the variable name of a hook's guard. The first hook of a function has number 0.
pub(super) fn guard(number: usize) -> String {
    format!("_mlprof_guard_{number}")
}

/// Returns the initialiser of a function's static site. `name` and `line` are expressions.
fn site(kind: u32, name: &str, line: &str) -> String {
    let file = "crate::__mlprof::__core::file!()";
    format!("crate::__mlprof::Site::new({kind}, {name}, {file}, {line})")
}

/// Returns the expressions, or an error if one of them does not use an argument of the function.
fn told(inputs: &[String], arguments: &[String]) -> Result<Vec<String>, String> {
    let is_argument = |word: &str| arguments.iter().any(|argument| argument == word);
    let mut told = Vec::new();
    for input in inputs {
        let mut words = input.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        if input.is_empty() {
            told.push("()".to_owned());
        } else if words.any(is_argument) {
            told.push(input.clone());
        } else {
            return Err(format!(
                "the rule lists the input `{input}`, but the function has no such argument"
            ));
        }
    }
    Ok(told)
}
