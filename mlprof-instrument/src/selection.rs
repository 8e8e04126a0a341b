//! What is to be measured.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::SelectError;
use super::function::Found;
use super::hook::{Hook, Inputs};
use super::names;
use super::pattern::Pattern;
use super::presets;
use super::result::HookKind;
use super::rules::{CrateRules, RuleFile};
use super::template;
use crate::fingerprint::Fingerprint;

/// Changes with every change of what is spliced that the template's text does not show.
const VERSION: u32 = 2;

/// What is to be measured: patterns of functions, and rules that say which functions are ops.
///
/// It travels as JSON from `mlprof run` to the processes that compile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    functions: Vec<Pattern>,
    lines: Vec<Pattern>,
    memory: Vec<Pattern>,
    except: Vec<Pattern>,
    rules: Vec<RuleFile>,
    /// Whether what ops return is told, too.
    #[serde(default)]
    outputs: bool,
}

impl Selection {
    /// Whether anything in this crate may be selected. `crate_name` is rustc's: with underscores.
    pub fn concerns(&self, crate_name: &str) -> bool {
        let patterns = [&self.functions, &self.lines, &self.memory];
        patterns.into_iter().flatten().any(|pattern| pattern.concerns(crate_name))
            || self.rules_of(crate_name).next().is_some()
    }

    /// Whether nothing is selected at all.
    pub fn is_empty(&self) -> bool {
        let patterns = [&self.functions, &self.lines, &self.memory];
        patterns.into_iter().all(Vec::is_empty) && self.rules.is_empty()
    }

    /// A number that changes when what is selected of this crate changes, or what is put into it.
    /// The same in every process.
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
            // Nothing in it has more than one form.
            let parts = (&file.framework, &file.dtypes, rules);
            hash.add(&serde_json::to_vec(&parts).unwrap_or_default());
        }
        hash.number()
    }

    /// All patterns that choose functions, to say which of them matched nothing.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.functions.iter().chain(&self.lines).chain(&self.memory)
    }

    /// The rule files, each with the crates that it is about.
    pub fn rule_files(&self) -> &[RuleFile] {
        &self.rules
    }

    /// The frameworks of whose ops outputs are to be told, and cannot be, since no rule says how their numbers are read.
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

    /// The rules about a crate, each with its file.
    pub(super) fn rules_of(
        &self,
        crate_name: &str,
    ) -> impl Iterator<Item = (&RuleFile, &CrateRules)> {
        self.rules.iter().flat_map(move |file| {
            let rules = file.crates.iter().filter(move |rules| rules.name == crate_name);
            rules.map(move |rules| (file, rules))
        })
    }

    /// Whether what ops of this crate return is told: if that was asked for, and its numbers can be read.
    pub(super) fn tells_outputs_of(&self, rules: &CrateRules) -> bool {
        self.outputs && !rules.readable_types().is_empty()
    }

    /// The hooks that a function is to have.
    pub(super) fn hooks(&self, found: &Found<'_>) -> Vec<Hook> {
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
                    Some(inputs) => Inputs::Told(inputs.clone()),
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

/// Makes a [`Selection`] of what a user asked for.
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
    /// A pattern that cannot be meant.
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
    /// A pattern that cannot be meant.
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
    /// A pattern that cannot be meant.
    pub fn memory<P: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, SelectError> {
        add(&mut self.selection.memory, patterns)?;
        Ok(self)
    }

    /// Leaves these functions out of everything.
    ///
    /// # Errors
    ///
    /// A pattern that cannot be meant.
    pub fn except<P: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, SelectError> {
        add(&mut self.selection.except, patterns)?;
        Ok(self)
    }

    /// Measures the ops that a preset names (one of [`PRESETS`](super::PRESETS)), or a rule file: what
    /// ends in `.toml` or has a `/` in it is a path.
    ///
    /// # Errors
    ///
    /// A preset that does not exist, a file that cannot be read or is wrong.
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

    /// Tells what ops return, too, of those crates whose rules say how to read it.
    #[must_use]
    pub fn outputs(mut self, tells: bool) -> Self {
        self.selection.outputs = tells;
        self
    }

    /// The selection.
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
