//! The text of a hook.

use super::path::FunctionPath;
use super::result::HookKind;

/// What a function is measured as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hook {
    pub kind: HookKind,
    pub name: String,
    pub inputs: Inputs,
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
        Self { kind, name: path.to_string(), inputs: Inputs::None }
    }

    /// The statement that a function begins with.
    pub fn statement(&self, line: u32, arguments: &[String]) -> Result<String, String> {
        self.with(&format!("{:?}", self.name), &line.to_string(), None, arguments)
    }

    /// The statement for a function that a macro makes.
    pub fn made_statement(&self, made: &Made, arguments: &[String]) -> Result<String, String> {
        self.with(&made.name, "crate::__mlprof::__core::line!()", made.only.as_ref(), arguments)
    }

    fn with(
        &self,
        name: &str,
        line: &str,
        only: Option<&(String, Vec<String>)>,
        arguments: &[String],
    ) -> Result<String, String> {
        let only = only.map_or(String::new(), |(made, names)| {
            let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
            format!(", {made}, [{}]", names.join(", "))
        });
        let inputs = match &self.inputs {
            Inputs::None => String::new(),
            Inputs::Tensors => format!("; {}", arguments.join(", ")),
            Inputs::Told(_) if !only.is_empty() => {
                return Err("a macro makes it, and the rule tells its inputs".to_owned());
            }
            Inputs::Told(inputs) => format!(" => {}", told(inputs, arguments)?),
        };
        Ok(format!(" __mlprof!({}, {name}, {line}{only}{inputs});", self.kind.code()))
    }

    /// What stands before and after the body of an async function.
    pub fn around_async(&self, line: u32, returns: Option<String>) -> (String, &'static str) {
        let hint = returns.map_or(String::new(), |returns| {
            format!(" if false {{ return crate::__mlprof::never::<{returns}>(); }}")
        });
        let (kind, name) = (self.kind.code(), &self.name);
        let before = format!(
            " crate::__mlprof::poll(__mlprof_site!({kind}, {name:?}, {line}), async move {{{hint}"
        );
        (before, " }).await ")
    }
}

/// The expressions, if each is about an argument of the function.
fn told(inputs: &[String], arguments: &[String]) -> Result<String, String> {
    let is_argument = |word: &str| arguments.iter().any(|argument| argument == word);
    let mut told = Vec::new();
    for input in inputs {
        let mut words = input.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        if input.is_empty() {
            told.push("()");
        } else if words.any(is_argument) {
            told.push(input);
        } else {
            return Err(format!("the rule tells its input `{input}`, and it has no such argument"));
        }
    }
    Ok(told.join(", "))
}
