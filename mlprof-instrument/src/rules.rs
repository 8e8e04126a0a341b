//! Rule files, which define the ops of a framework.

use std::collections::BTreeMap;

use mlprof_events::DType;
use serde::{Deserialize, Serialize};

use super::function::FunctionProperties;
use super::pattern::{Pattern, glob};
use super::result::{FunctionKind, HookKind};
use super::text::without_blanks;

/// Rules of one framework, read from TOML. The presets contain examples of all fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    /// Prefix of the op names: `candle` results in `candle::matmul`.
    pub framework: String,
    /// Description of the rules in one line.
    #[serde(default)]
    pub description: String,
    /// Variants of the framework's enum of element types, as patterns without the enum's name.
    #[serde(default)]
    pub dtypes: BTreeMap<String, DTypeName>,
    /// Crates that the rules apply to.
    #[serde(rename = "crate")]
    pub crates: Vec<CrateRules>,
}

impl RuleFile {
    /// Returns `true` if a rule selects functions that end together with a training step.
    pub fn has_steps(&self) -> bool {
        let mut rules = self.crates.iter().flat_map(|of_crate| &of_crate.rules);
        rules.any(|rule| rule.kind == HookKind::Step)
    }
}

/// Rules of one crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrateRules {
    /// Crate name as used by rustc, with underscores.
    pub name: String,
    /// Tensor types of the crate.
    #[serde(default, rename = "tensor", skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<TensorRule>,
    /// Rules for functions. The first rule that applies to a function is used.
    #[serde(default, rename = "rule")]
    pub rules: Vec<FunctionRule>,
}

/// Describes a tensor type and how to read its shape, as Rust code that compiles in that crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorRule {
    /// Name of a type that is a tensor.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Alternative to a type: a trait of all tensors, for crates that are generic over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// Expression with a method `.iter()` that iterates over `&usize`. The variable `tensor` is a
    /// reference to the tensor.
    pub dimensions: String,
    /// Expression for the element type, a value of the enum `dtype_enum`.
    pub dtype: String,
    /// Path of the enum with the variants that [`RuleFile::dtypes`] lists.
    pub dtype_enum: String,
    /// Statements that call `reader.read(dtype, all, start, sizes, strides)` if the tensor's values
    /// are in host memory. `all` is the slice with the values, and `start` the index of the first
    /// one. `sizes` iterates over `&usize`, and `strides` over `i64`. Without these statements,
    /// outputs of the crate's ops cannot be read. The type must be cloneable without copying its
    /// values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<String>,
    /// Other names of the type in the return types of ops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

/// Selects functions and the kind of their measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionRule {
    /// Kind of hook: `op`, `backward`, `action`, `step` or `function`.
    pub kind: HookKind,
    /// Patterns of the functions. Nested functions and closures are never ops.
    pub functions: Vec<Pattern>,
    /// Names of functions to exclude, which may contain `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// If set, the rule applies only to functions with one of these return types, as written in the
    /// source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<Vec<String>>,
    /// If set, the rule applies only to `pub` functions and functions of traits.
    #[serde(default, skip_serializing_if = "is_false")]
    pub public: bool,
    /// Name of the hook, `{function}` by default. `{type}` is the type of the `impl` block in snake
    /// case, and `{trait}` is the trait. Op names also get the framework as a prefix.
    #[serde(default = "function_name")]
    pub name: String,
    /// Prefixes to remove from `{function}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strip: Vec<String>,
    /// Suffixes to remove from `{type}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strip_type: Vec<String>,
    /// Replacements for resulting names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
    /// For an op that runs another op: a `&str` expression with the other op's name. At run time,
    /// this name replaces the part after the framework.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_by: Option<String>,
    /// For an op: expressions for its inputs, if the tensor arguments are not suitable. An
    /// expression yields a tensor or integers. An empty expression (`""`) stands for a missing
    /// tensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
}

fn function_name() -> String {
    "{function}".to_owned()
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Element type of a tensor, with the name that Rust would use.
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

/// Code of an element type that is not listed.
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
    /// Parses a rule file. The error contains the position and the reason.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let rules: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        rules.check()?;
        Ok(rules)
    }

    fn check(&self) -> Result<(), String> {
        for of_crate in &self.crates {
            let name = &of_crate.name;
            if name.contains('-') {
                return Err(format!(
                    "crate `{name}`: write the name with underscores, as rustc does"
                ));
            }
            let bounds = of_crate.tensors.iter().filter(|tensor| tensor.bound.is_some()).count();
            if bounds > 0 && of_crate.tensors.len() > 1 {
                return Err(format!(
                    "crate `{name}`: a tensor with a `bound` must be the only tensor"
                ));
            }
            for tensor in &of_crate.tensors {
                if tensor.name.is_some() == tensor.bound.is_some() {
                    return Err(format!(
                        "crate `{name}`: a tensor needs either a `type` or a `bound`"
                    ));
                }
            }
            let cannot_be_read = |one: &TensorRule| one.bound.is_some() && one.numbers.is_some();
            if of_crate.tensors.iter().any(cannot_be_read) {
                return Err(format!(
                    "crate `{name}`: only a tensor with a `type` can have `numbers`"
                ));
            }
            for rule in &of_crate.rules {
                rule.check(of_crate).map_err(|reason| format!("crate `{name}`: {reason}"))?;
            }
        }
        Ok(())
    }
}

impl CrateRules {
    /// Returns the names of tensor types with readable values, without their module paths.
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
            return Err(
                "the kind of a rule must be op, backward, action, step or function".to_owned()
            );
        }
        let mut rest = self.name.as_str();
        while let Some((_, after)) = rest.split_once('{') {
            let (placeholder, after) = after.split_once('}').unwrap_or((after, ""));
            if !["function", "type", "trait"].contains(&placeholder) {
                return Err(format!(
                    "the name `{}` contains the unknown placeholder `{{{placeholder}}}`; use {{function}}, \
                     {{type}} or {{trait}}",
                    self.name
                ));
            }
            rest = after;
        }
        if let Some(pattern) = self.functions.iter().find(|one| !one.concerns(&of_crate.name)) {
            return Err(format!("the pattern `{pattern}` refers to another crate"));
        }
        if self.inputs.is_some() && !self.kind.is_op() {
            return Err("only ops can have `inputs`".to_owned());
        }
        if self.named_by.is_some() && self.kind != HookKind::Op {
            return Err("only a rule of the kind op can have `named_by`".to_owned());
        }
        if self.named_by.is_some() && of_crate.tensors.is_empty() {
            return Err(
                "`named_by` needs a [[crate.tensor]] that defines the tensor types".to_owned()
            );
        }
        if self.inputs.is_some() && of_crate.tensors.is_empty() {
            return Err(
                "`inputs` needs a [[crate.tensor]] that defines the tensor types".to_owned()
            );
        }
        Ok(())
    }

    /// Returns `true` if the rule applies to a function.
    pub(super) fn applies_to(&self, found: &FunctionProperties<'_>) -> bool {
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
        assert!(text.contains("line 6") && text.contains("an empty path segment"), "{text}");
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
