//! Rule files: which functions of a framework are ops.

use std::collections::BTreeMap;

use mlprof_events::DType;
use serde::{Deserialize, Serialize};

use super::function::Found;
use super::pattern::{Pattern, glob};
use super::result::{FunctionKind, HookKind};
use super::text::without_blanks;

/// The rules about one framework. Read from TOML; the presets show every field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    /// What stands before the names of its ops: `candle` makes `candle::matmul`.
    pub framework: String,
    /// What the rules choose, in a line.
    #[serde(default)]
    pub description: String,
    /// The variants of the framework's enum of types, as patterns without the enum's name.
    #[serde(default)]
    pub dtypes: BTreeMap<String, DTypeName>,
    /// The crates that the rules are about.
    #[serde(rename = "crate")]
    pub crates: Vec<CrateRules>,
}

impl RuleFile {
    /// Whether they choose functions whose end is the end of a training step.
    pub fn has_steps(&self) -> bool {
        let mut rules = self.crates.iter().flat_map(|of_crate| &of_crate.rules);
        rules.any(|rule| rule.kind == HookKind::Step)
    }
}

/// The rules about one crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrateRules {
    /// rustc's name of it: with underscores.
    pub name: String,
    /// What its tensors are.
    #[serde(default, rename = "tensor", skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<TensorRule>,
    /// Which functions are measured, as what. The first one that applies to a function counts.
    #[serde(default, rename = "rule")]
    pub rules: Vec<FunctionRule>,
}

/// What a tensor is, and how to ask it for its shape: Rust, as it is written in that crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorRule {
    /// A type that is a tensor.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// In place of a type: a trait that all tensors have, for crates that are generic over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// An expression that `.iter()` makes an iterator over `&usize` of, with `tensor` being a
    /// reference to the tensor.
    pub dimensions: String,
    /// An expression for the type of its elements, of the enum `dtype_enum`.
    pub dtype: String,
    /// The path of that enum, whose variants [`RuleFile::dtypes`] lists.
    pub dtype_enum: String,
    /// Statements that call `reader.read(dtype, all, start, sizes, strides)` if the tensor's numbers are in the host's memory: `all`
    /// is the slice that has them, the first one at `start`; `sizes` iterates over `&usize`, `strides` over `i64`. Without them
    /// nobody can look at what its ops return. The type must be one that can be cloned, without its numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<String>,
    /// What else the type is called where an op returns it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

/// Functions, and what they are measured as.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionRule {
    /// `op`, `backward`, `action`, `step` or `function`.
    pub kind: HookKind,
    /// Where the functions are. Functions within functions and closures are never ops.
    pub functions: Vec<Pattern>,
    /// Names of functions, with `*`, to which the rule does not apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// If given, it applies only to functions that return one of these, as it is written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<Vec<String>>,
    /// Whether it applies only to `pub` functions and those of traits.
    #[serde(default, skip_serializing_if = "is_false")]
    pub public: bool,
    /// The name, `{function}` by default; `{type}` is the type of the `impl` block in snake case,
    /// `{trait}` the trait. The framework comes before the names of ops.
    #[serde(default = "function_name")]
    pub name: String,
    /// Beginnings that `{function}` is without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strip: Vec<String>,
    /// Endings that `{type}` is without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strip_type: Vec<String>,
    /// Names that would come out, and what they are instead.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
    /// Of an op that runs another one: an expression for the name of that one, a `&str`. What stands
    /// behind the framework in the op's name is then told when it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_by: Option<String>,
    /// Of an op, expressions for its inputs, where the arguments that are tensors are not what is
    /// wanted: tensors, whole numbers, or nothing (`""`) where there is no tensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
}

fn function_name() -> String {
    "{function}".to_owned()
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The type of a tensor's elements, as Rust would name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DTypeName {
    F64,
    F32,
    F16,
    BF16,
    F8,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
    Complex64,
    Complex128,
    Quantized,
    Other,
}

/// What a type that is not listed is told as.
pub(super) const OTHER: i64 = DType::Other as i64;

impl DTypeName {
    pub(super) const fn code(self) -> i64 {
        let dtype = match self {
            Self::F64 => DType::Float64,
            Self::F32 => DType::Float32,
            Self::F16 => DType::Float16,
            Self::BF16 => DType::BFloat16,
            Self::F8 => DType::Float8,
            Self::I64 => DType::Int64,
            Self::I32 => DType::Int32,
            Self::I16 => DType::Int16,
            Self::I8 => DType::Int8,
            Self::U64 => DType::UInt64,
            Self::U32 => DType::UInt32,
            Self::U16 => DType::UInt16,
            Self::U8 => DType::UInt8,
            Self::Bool => DType::Bool,
            Self::Complex64 => DType::Complex64,
            Self::Complex128 => DType::Complex128,
            Self::Quantized => DType::Quantized,
            Self::Other => DType::Other,
        };
        dtype as i64
    }
}

impl RuleFile {
    /// Reads the text of a rule file. The error says where and why.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let rules: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        rules.check()?;
        Ok(rules)
    }

    fn check(&self) -> Result<(), String> {
        for of_crate in &self.crates {
            let name = &of_crate.name;
            if name.contains('-') {
                return Err(format!("write the crate `{name}` with underscores, as rustc does"));
            }
            let bounds = of_crate.tensors.iter().filter(|tensor| tensor.bound.is_some()).count();
            if bounds > 0 && of_crate.tensors.len() > 1 {
                return Err(format!(
                    "crate `{name}`: a tensor with a `bound` must be the only one"
                ));
            }
            for tensor in &of_crate.tensors {
                if tensor.name.is_some() == tensor.bound.is_some() {
                    return Err(format!(
                        "crate `{name}`: a tensor has either a `type` or a `bound`"
                    ));
                }
            }
            let cannot_be_read = |one: &TensorRule| one.bound.is_some() && one.numbers.is_some();
            if of_crate.tensors.iter().any(cannot_be_read) {
                return Err(format!("crate `{name}`: only a tensor with a `type` has `numbers`"));
            }
            for rule in &of_crate.rules {
                rule.check(of_crate).map_err(|reason| format!("crate `{name}`: {reason}"))?;
            }
        }
        Ok(())
    }
}

impl CrateRules {
    /// The names of the types of tensors whose numbers can be read, without what they are in.
    pub(super) fn readable_types(&self) -> Vec<String> {
        let readable = self.tensors.iter().filter(|tensor| tensor.numbers.is_some());
        let names = readable.flat_map(|tensor| {
            let last = tensor.name.as_deref().and_then(|name| name.rsplit("::").next());
            last.into_iter().chain(tensor.aliases.iter().map(String::as_str))
        });
        names.map(|name| name.trim().to_owned()).collect()
    }
}

impl FunctionRule {
    fn check(&self, of_crate: &CrateRules) -> Result<(), String> {
        if matches!(self.kind, HookKind::Lines | HookKind::Memory) {
            return Err("a rule's kind is op, backward, action, step or function".to_owned());
        }
        let mut rest = self.name.as_str();
        while let Some((_, after)) = rest.split_once('{') {
            let (placeholder, after) = after.split_once('}').unwrap_or((after, ""));
            if !["function", "type", "trait"].contains(&placeholder) {
                return Err(format!(
                    "the name `{}` has `{{{placeholder}}}` in it; there are {{function}}, {{type}} and {{trait}}",
                    self.name
                ));
            }
            rest = after;
        }
        if let Some(pattern) = self.functions.iter().find(|one| !one.concerns(&of_crate.name)) {
            return Err(format!("the pattern `{pattern}` is about another crate"));
        }
        if self.inputs.is_some() && !self.kind.is_op() {
            return Err("only ops have `inputs`".to_owned());
        }
        if self.named_by.is_some() && self.kind != HookKind::Op {
            return Err("only what is of the kind op is `named_by` something".to_owned());
        }
        if self.named_by.is_some() && of_crate.tensors.is_empty() {
            return Err(
                "`named_by` is given, but no [[crate.tensor]] says what tensors are".to_owned()
            );
        }
        if self.inputs.is_some() && of_crate.tensors.is_empty() {
            return Err(
                "`inputs` are given, but no [[crate.tensor]] says what tensors are".to_owned()
            );
        }
        Ok(())
    }

    /// Whether a function is one of these.
    pub(super) fn applies_to(&self, found: &Found<'_>) -> bool {
        let is_inner = matches!(found.kind, FunctionKind::Nested | FunctionKind::Closure);
        !is_inner
            && (found.is_public || !self.public)
            && !self.except.iter().any(|name| glob(name, found.path.name()))
            && self
                .returns
                .as_ref()
                .is_none_or(|types| types.iter().any(|one| without_blanks(one) == found.returns))
            && self.functions.iter().any(|pattern| pattern.matches(found.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "framework = 'f'\n[[crate]]\nname = 'a_b'\n[[crate.rule]]\n\
                         kind = 'op'\nfunctions = ['a_b::*']\n";

    fn error(from: &str, to: &str) -> String {
        assert!(RULES.contains(from), "{from}");
        RuleFile::parse(&RULES.replace(from, to)).expect_err(to)
    }

    #[test]
    fn an_error_says_where_and_why() {
        assert!(RuleFile::parse(RULES).is_ok());
        let text = error("kind = 'op'", "kind = 'opp'");
        assert!(text.contains("line 5") && text.contains("opp") && text.contains("op"), "{text}");
        let text = error("a_b::*", "a_b::::c");
        assert!(text.contains("line 6") && text.contains("a part without a name"), "{text}");
        let text = error("kind", "kidn");
        assert!(text.contains("kidn"), "{text}");
        let text = error("name = 'a_b'", "name = 'a-b'");
        assert!(text.contains("`a-b`") && text.contains("underscores"), "{text}");
        let text = error("a_b::*", "other::*");
        assert!(text.contains("`other::*`") && text.contains("crate `a_b`"), "{text}");
        let text = error("kind = 'op'", "kind = 'op'\nname = '{fn}'");
        assert!(text.contains("{fn}") && text.contains("{function}"), "{text}");
        let text = error("kind = 'op'", "kind = 'lines'");
        assert!(text.contains("action"), "{text}");
        let text = error("kind = 'op'", "kind = 'op'\ninputs = ['x']");
        assert!(text.contains("[[crate.tensor]]"), "{text}");
        let text = error("kind = 'op'", "kind = 'step'\nnamed_by = 'x'");
        assert!(text.contains("`named_by`"), "{text}");
    }
}
