//! The text of a hook.

use super::path::FunctionPath;
use super::result::HookKind;

/// What a function is measured as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hook {
    pub kind: HookKind,
    pub name: String,
    /// An expression for what stands behind the framework in the name.
    pub named_by: Option<String>,
    pub inputs: Inputs,
    /// The types of tensors that it may return, if these are told, too.
    pub outputs: Vec<String>,
}

/// What is told about the arguments of an op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inputs {
    None,
    /// Those that are tensors.
    Tensors,
    /// These expressions.
    Told(Vec<String>),
}

/// What stands where the text of a hook needs a string or a number that only the compiler knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    /// An expression for the name.
    pub name: String,
    /// An expression for what is compared, and what it may be, if not all calls of the macro are
    /// selected.
    pub only: Option<(String, Vec<String>)>,
}

impl Hook {
    /// A hook that is called what the function is called.
    pub fn function(path: &FunctionPath, kind: HookKind) -> Self {
        Self {
            kind,
            name: path.to_string(),
            named_by: None,
            inputs: Inputs::None,
            outputs: Vec::new(),
        }
    }

    /// The statement that a function begins with. `number` tells its guard from those of others.
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
        let made = Made { name: format!("{name:?}"), only: None };
        self.with(number, &made, &line.to_string(), arguments)
    }

    /// The statement for a function that a macro makes.
    pub fn made_statement(
        &self,
        number: usize,
        made: &Made,
        arguments: &[String],
    ) -> Result<String, String> {
        self.with(number, made, LINE, arguments)
    }

    fn with(
        &self,
        number: usize,
        made: &Made,
        line: &str,
        arguments: &[String],
    ) -> Result<String, String> {
        if made.only.is_some() && matches!(self.inputs, Inputs::Told(_)) {
            return Err("a macro makes it, and the rule tells its inputs".to_owned());
        }
        let bits = self.bits(made);
        let wrapper = match &self.inputs {
            Inputs::None => "",
            Inputs::Tensors => "Input",
            Inputs::Told(_) => "Value",
        };
        let inputs = self.told_inputs(arguments)?;
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

    /// The expressions for what is told of its inputs.
    pub fn told_inputs(&self, arguments: &[String]) -> Result<Vec<String>, String> {
        match &self.inputs {
            Inputs::None => Ok(Vec::new()),
            Inputs::Tensors => Ok(arguments.to_vec()),
            Inputs::Told(inputs) => told(inputs, arguments),
        }
    }

    /// What stands before and after the body of an async function.
    pub fn around_async(&self, line: u32, returns: Option<String>) -> (String, &'static str) {
        let made = Made { name: format!("{:?}", self.name), only: None };
        self.around_polls(&made, &line.to_string(), returns)
    }

    /// What stands before and after the body of an async function that a macro makes.
    pub fn around_made_async(
        &self,
        made: &Made,
        returns: Option<String>,
    ) -> (String, &'static str) {
        self.around_polls(made, LINE, returns)
    }

    fn around_polls(
        &self,
        made: &Made,
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

    /// An expression for the bits that it waits for: none where the macro's call is not selected.
    fn bits(&self, made: &Made) -> String {
        let bits = self.kind.bits();
        let Some((made, names)) = &made.only else { return bits.to_string() };
        let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(", ");
        let is_chosen = format!("crate::__mlprof::is_one_of({made}, &[{names}])");
        format!("const {{ if {is_chosen} {{ {bits} }} else {{ 0 }} }}")
    }
}

/// An expression for the line where a macro is called.
const LINE: &str = "crate::__mlprof::__core::line!()";
/// The number of an op that tells its name when it runs.
const NAMED_OP: u32 = 6;
/// What a hook tells inputs to.
const WORDS: &str = "__mlprof_words";
/// The methods that tell an input, of which the compiler chooses one.
const TRAITS: &str = "#[allow(unused_imports)] \
     use crate::__mlprof::{First as _, Fourth as _, Second as _, Third as _};";

/// The guard of a function's hook: the first one of the function is number 0.
pub(super) fn guard(number: usize) -> String {
    format!("_mlprof_guard_{number}")
}

/// The value of a static that tells of a function. `name` and `line` are expressions.
fn site(kind: u32, name: &str, line: &str) -> String {
    let file = "crate::__mlprof::__core::file!()";
    format!("crate::__mlprof::Site::new({kind}, {name}, {file}, {line})")
}

/// The expressions, if each is about an argument of the function.
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
            return Err(format!("the rule tells its input `{input}`, and it has no such argument"));
        }
    }
    Ok(told)
}
