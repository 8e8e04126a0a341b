//! Selection of the functions to measure.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::SelectError;
use super::function::FunctionProperties;
use super::hook::{Hook, Inputs};
use super::names;
use super::pattern::Pattern;
use super::presets;
use super::result::HookKind;
use super::rules::{CrateRules, RuleFile};
use super::template;
use crate::fingerprint::Fingerprint;

/// Version of the instrumentation. Must be increased with every change that the template texts do
/// not show.
const VERSION: u32 = 2;

/// Functions to measure: patterns, and rules that define the ops of frameworks.
///
/// The selection is passed as JSON from `mlprof run` to the compiler processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    functions: Vec<Pattern>,
    lines: Vec<Pattern>,
    memory: Vec<Pattern>,
    except: Vec<Pattern>,
    rules: Vec<RuleFile>,
    /// Set when the outputs of ops are also reported.
    #[serde(default)]
    outputs: bool,
}

impl Selection {
    /// Returns `true` if functions in this crate may be selected. `crate_name` is the name used by
    /// rustc, with underscores.
    pub fn concerns(&self, crate_name: &str) -> bool {
        let patterns = [&self.functions, &self.lines, &self.memory];
        patterns.into_iter().flatten().any(|pattern| pattern.concerns(crate_name))
            || self.rules_of(crate_name).next().is_some()
    }

    /// Returns `true` if no function can be selected.
    pub fn is_empty(&self) -> bool {
        let patterns = [&self.functions, &self.lines, &self.memory];
        patterns.into_iter().all(Vec::is_empty) && self.rules.is_empty()
    }

    /// Returns a number that changes with the selection for this crate, or with the inserted texts.
    /// The number is the same in every process.
    pub fn fingerprint(&self, crate_name: &str) -> u64 {
        let mut hash = Fingerprint::default();
        hash.add(&VERSION.to_le_bytes());
        hash.add(template::TEXTS.concat().as_bytes());
        let lists = [&self.functions, &self.lines, &self.memory, &self.except];
        for (number, patterns) in (0_u8..).zip(lists) {
            hash.add(&[number]);
            for pattern in patterns.iter().filter(|pattern| pattern.concerns(crate_name)) {
                hash.add(pattern.text().as_bytes());
                hash.add(&[0xff]);
            }
        }
        if self.outputs && self.rules_of(crate_name).next().is_some() {
            hash.add(b"outputs");
        }
        for (file, rules) in self.rules_of(crate_name) {
            // All of these values have a unique serialisation.
            let parts = (&file.framework, &file.dtypes, rules);
            hash.add(&serde_json::to_vec(&parts).unwrap_or_default());
        }
        hash.number()
    }

    /// Returns all patterns that select functions, so that unmatched ones can be reported.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.functions.iter().chain(&self.lines).chain(&self.memory)
    }

    /// Returns the rule files.
    pub fn rule_files(&self) -> &[RuleFile] {
        &self.rules
    }

    /// Returns the frameworks whose outputs are requested but cannot be read, because no rule
    /// describes how.
    pub fn frameworks_without_outputs(&self) -> Vec<&str> {
        let is_read = |name: &str| {
            let files = self.rules.iter().filter(|file| file.framework == name);
            files.flat_map(|file| &file.crates).any(|rules| self.tells_outputs_of(rules))
        };
        let all = self.rules.iter().map(|file| file.framework.as_str());
        let mut names: Vec<_> = all.filter(|name| self.outputs && !is_read(name)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the rules for a crate, each with its file.
    pub(super) fn rules_of(
        &self,
        crate_name: &str,
    ) -> impl Iterator<Item = (&RuleFile, &CrateRules)> {
        self.rules.iter().flat_map(move |file| {
            let rules = file.crates.iter().filter(move |rules| rules.name == crate_name);
            rules.map(move |rules| (file, rules))
        })
    }

    /// Returns `true` if the outputs of this crate's ops are requested and can be read.
    pub(super) fn tells_outputs_of(&self, rules: &CrateRules) -> bool {
        self.outputs && !rules.readable_types().is_empty()
    }

    /// Returns the hooks for a function.
    pub(super) fn hooks(&self, found: &FunctionProperties<'_>) -> Vec<Hook> {
        let is_chosen =
            |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(found.path));
        if is_chosen(&self.except) {
            return Vec::new();
        }
        let mut hooks = Vec::new();
        if is_chosen(&self.functions) {
            hooks.push(Hook::function(found.path, HookKind::Function));
        }
        for (file, rules) in self.rules_of(&found.path.segments[0]) {
            let rule = rules.rules.iter().find(|rule| rule.applies_to(found));
            hooks.extend(rule.map(|rule| Hook {
                kind: rule.kind,
                name: names::hook_name(rule, &file.framework, found),
                named_by: rule.named_by.clone(),
                inputs: match &rule.inputs {
                    _ if rules.tensors.is_empty() || !rule.kind.is_op() => Inputs::None,
                    Some(inputs) => Inputs::Expressions(inputs.clone()),
                    None => Inputs::Tensors,
                },
                outputs: match rule.kind {
                    HookKind::Op if self.outputs => rules.readable_types(),
                    _ => Vec::new(),
                },
            }));
        }
        for (patterns, kind) in [(&self.lines, HookKind::Lines), (&self.memory, HookKind::Memory)] {
            if is_chosen(patterns) {
                hooks.push(Hook::function(found.path, kind));
            }
        }
        hooks
    }
}

/// Builder for a [`Selection`].
///
/// ```
/// use mlprof_instrument::SelectionBuilder;
///
/// let selection = SelectionBuilder::default()
///     .functions(["my_model::net::*"])?
///     .except(["my_model::net::Net::clone"])?
///     .ops("candle")?
///     .build();
/// assert!(selection.concerns("candle_core") && selection.concerns("my_model"));
/// # Ok::<(), mlprof_instrument::SelectError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct SelectionBuilder {
    selection: Selection,
}

impl SelectionBuilder {
    /// Measures the calls of these functions.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern is invalid.
    pub fn functions<P: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, SelectError> {
        add(&mut self.selection.functions, patterns)?;
        Ok(self)
    }

    /// Measures the time of each line of these functions.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern is invalid.
    pub fn lines<P: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, SelectError> {
        add(&mut self.selection.lines, patterns)?;
        Ok(self)
    }

    /// Measures the memory of each line of these functions.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern is invalid.
    pub fn memory<P: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, SelectError> {
        add(&mut self.selection.memory, patterns)?;
        Ok(self)
    }

    /// Excludes these functions from all measurements.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern is invalid.
    pub fn except<P: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, SelectError> {
        add(&mut self.selection.except, patterns)?;
        Ok(self)
    }

    /// Measures the ops of a preset (one of [`PRESETS`](super::PRESETS)) or of a rule file. A text
    /// that ends in `.toml` or contains a `/` is a path.
    ///
    /// # Errors
    ///
    /// Returns an error if the preset does not exist, or if the file cannot be read or is invalid.
    pub fn ops(mut self, preset_or_file: &str) -> Result<Self, SelectError> {
        let is_path = preset_or_file.ends_with(".toml") || preset_or_file.contains(['/', '\\']);
        let rules = if is_path {
            presets::read(Path::new(preset_or_file))?
        } else {
            presets::preset(preset_or_file)?
        };
        if !self.selection.rules.contains(&rules) {
            self.selection.rules.push(rules);
        }
        Ok(self)
    }

    /// Also reports the outputs of ops, for crates with rules that describe how to read them.
    #[must_use]
    pub fn outputs(mut self, tells: bool) -> Self {
        self.selection.outputs = tells;
        self
    }

    /// Returns the selection.
    pub fn build(self) -> Selection {
        self.selection
    }
}

fn add<P: AsRef<str>>(
    patterns: &mut Vec<Pattern>,
    more: impl IntoIterator<Item = P>,
) -> Result<(), SelectError> {
    for pattern in more {
        patterns.push(pattern.as_ref().parse::<Pattern>()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(functions: &[&str], ops: &[&str]) -> Selection {
        let builder = SelectionBuilder::default().functions(functions).expect("patterns");
        let builder =
            ops.iter().try_fold(builder, |builder, ops| builder.ops(ops)).expect("presets");
        builder.build()
    }

    #[test]
    fn a_fingerprint_changes_with_what_is_selected_of_a_crate_and_with_nothing_else() {
        let one = selection(&["a::f"], &["candle"]);
        let more = selection(&["a::f", "b::g"], &["candle"]);
        assert_eq!(one.fingerprint("a"), more.fingerprint("a"));
        assert_ne!(one.fingerprint("b"), more.fingerprint("b"));
        assert_eq!(one.fingerprint("candle_core"), more.fingerprint("candle_core"));
        let without = selection(&["a::f"], &[]);
        assert_ne!(one.fingerprint("candle_core"), without.fingerprint("candle_core"));
        assert_eq!(one.fingerprint("a"), without.fingerprint("a"));
        let lines = SelectionBuilder::default().lines(["a::f"]).expect("a pattern").build();
        assert_ne!(lines.fingerprint("a"), without.fingerprint("a"));
        let outputs =
            SelectionBuilder::default().ops("candle").expect("a preset").outputs(true).build();
        assert_ne!(outputs.fingerprint("candle_core"), one.fingerprint("candle_core"));
        assert_eq!(outputs.fingerprint("b"), one.fingerprint("b"));
        let except = SelectionBuilder::default().functions(["a::f"]).expect("a pattern");
        let except = except.except(["a::f"]).expect("a pattern").build();
        assert_ne!(except.fingerprint("a"), without.fingerprint("a"));
    }

    #[test]
    fn a_selection_survives_the_way_to_another_process() {
        let all = PRESET_NAMES.to_vec();
        let before = selection(&["a::**::<* as T>::f"], &all);
        let text = serde_json::to_string(&before).expect("JSON");
        let after: Selection = serde_json::from_str(&text).expect("the same");
        assert_eq!(before, after);
        for name in ["a", "candle_core", "burn_flex", "burn_autodiff"] {
            assert_eq!(before.fingerprint(name), after.fingerprint(name));
            assert!(after.concerns(name), "{name}");
        }
        assert!(!after.concerns("serde"));
    }

    #[test]
    fn frameworks_are_named_whose_outputs_cannot_be_told() {
        let of = |ops: &[&str], outputs| {
            let builder = SelectionBuilder::default();
            let builder = ops.iter().try_fold(builder, |builder, ops| builder.ops(ops));
            builder.expect("presets").outputs(outputs).build()
        };
        let all = of(&["candle", "burn-flex", "burn-autodiff"], true);
        assert_eq!(all.frameworks_without_outputs(), [""; 0]);
        assert_eq!(of(&["candle", "burn-autodiff"], true).frameworks_without_outputs(), ["burn"]);
        assert_eq!(of(&["burn-autodiff"], false).frameworks_without_outputs(), [""; 0]);
    }

    const PRESET_NAMES: [&str; 3] = ["candle", "burn-flex", "burn-autodiff"];

    #[test]
    fn an_unknown_preset_is_an_error_that_names_those_there_are() {
        let error = SelectionBuilder::default().ops("tensorflow").expect_err("no such preset");
        let text = error.to_string();
        assert!(text.contains("`tensorflow`"), "{text}");
        for name in PRESET_NAMES {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn an_empty_selection_concerns_nothing() {
        let nothing = SelectionBuilder::default().except(["a::*"]).expect("a pattern").build();
        assert!(nothing.is_empty() && !nothing.concerns("a"));
    }
}
