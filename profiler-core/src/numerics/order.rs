//! Execution order of a step's modules, and which of its tensors were finite.

use rustc_hash::FxHashMap;

use crate::report::numerics::{FaultInterval, IntervalEnd};
use mlprof_events::TensorRole;

/// Maximum number of names to keep per role.
const MOST_NAMES: usize = 20_000;

/// The latest tensor with a given name.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Pass that it belongs to: a step, or a rerun of its batch.
    pass: u64,
    /// Position in the order of that pass.
    position: u64,
    /// `None` until a device has returned the result.
    is_finite: Option<bool>,
}

/// Observations of the current pass. Entries of earlier passes are kept, so that a pass does not
/// allocate for known names.
#[derive(Debug, Default)]
pub(super) struct StepOrder {
    pass: u64,
    position: u64,
    outputs: FxHashMap<String, Reading>,
    gradients: FxHashMap<String, Reading>,
    loss: Option<Reading>,
}

impl StepOrder {
    /// Begins a step or a rerun of its batch.
    pub(super) fn begin_pass(&mut self) {
        self.pass += 1;
        self.position = 0;
    }

    /// Adds a tensor and returns its position. `is_finite` may be completed later.
    pub(super) fn add(&mut self, role: TensorRole, name: &str, is_finite: Option<bool>) -> u64 {
        self.position += 1;
        let seen = Reading { pass: self.pass, position: self.position, is_finite };
        let known = match role {
            TensorRole::Output => &mut self.outputs,
            TensorRole::Gradient => &mut self.gradients,
            TensorRole::Loss => {
                self.loss = Some(seen);
                return self.position;
            }
            _ => return self.position,
        };
        if let Some(entry) = known.get_mut(name) {
            *entry = seen;
        } else if known.len() < MOST_NAMES {
            known.insert(name.to_owned(), seen);
        }
        self.position
    }

    /// Stores the device result of the tensor at `position`.
    pub(super) fn complete(
        &mut self,
        role: TensorRole,
        name: &str,
        position: u64,
        is_finite: bool,
    ) {
        let entry = match role {
            TensorRole::Output => self.outputs.get_mut(name),
            TensorRole::Gradient => self.gradients.get_mut(name),
            TensorRole::Loss => self.loss.as_mut(),
            _ => None,
        };
        let pass = self.pass;
        // A later tensor may have replaced the entry of this name.
        if let Some(entry) = entry.filter(|it| (it.pass, it.position) == (pass, position)) {
            entry.is_finite = Some(is_finite);
        }
    }

    /// Returns the position of the module that contains this parameter. A larger position means an
    /// earlier gradient. Returns `None` if no hook has reported the module in this pass.
    pub(super) fn position_of(&self, parameter: &str) -> Option<u64> {
        self.module_of(parameter).map(|(_, seen)| seen.position)
    }

    /// Returns the innermost module whose path is a prefix of the parameter's name.
    fn module_of(&self, parameter: &str) -> Option<(&str, Reading)> {
        let has_it = |name: &str| {
            let rest = parameter.strip_prefix(place(name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let modules = self.current(&self.outputs).filter(|(name, _)| has_it(name));
        modules.max_by_key(|(name, _)| place(name).len())
    }

    fn current<'all>(
        &self,
        all: &'all FxHashMap<String, Reading>,
    ) -> impl Iterator<Item = (&'all str, Reading)> + use<'all> {
        let pass = self.pass;
        all.iter().filter(move |(_, seen)| seen.pass == pass).map(|(name, seen)| (&**name, *seen))
    }

    /// Returns the interval of the forward pass in which a tensor at this position became
    /// non-finite.
    pub(super) fn forward(
        &self,
        role: TensorRole,
        name: &str,
        position: u64,
        input_is_finite: bool,
    ) -> Option<FaultInterval> {
        let is_before = |seen: &Reading| seen.is_finite == Some(true) && seen.position < position;
        let before = self.current(&self.outputs).filter(|(_, seen)| is_before(seen));
        let (after, _) = before.max_by_key(|(_, seen)| seen.position)?;
        // A finite input already shows that this module is the origin. A nested module can still
        // narrow it down.
        let is_inside = || {
            let rest = place(after).strip_prefix(place(name));
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let is_new = after != name && (!input_is_finite || is_inside());
        let until = if role == TensorRole::Loss { "loss" } else { name };
        is_new.then(|| FaultInterval::Forward { after: end(after), until: end(until) })
    }

    /// Returns the interval of the backward pass in which gradients became non-finite. `parameter`
    /// has the first non-finite gradient.
    pub(super) fn backward(&self, parameter: &str) -> Option<FaultInterval> {
        let gradients = || self.current(&self.gradients);
        let Some((module, seen)) = self.module_of(parameter) else {
            let named = |wanted: bool| {
                let all = gradients().filter(|(_, seen)| seen.is_finite == Some(wanted));
                let mut all: Vec<String> = all.map(|(name, _)| name.to_owned()).collect();
                all.sort_unstable();
                all
            };
            let (finite, not_finite) = (named(true), named(false));
            let is_only = finite.is_empty() && not_finite.len() < 2;
            return (!is_only).then_some(FaultInterval::Unordered { finite, not_finite });
        };
        // Gradients are grouped by module. A module counts as finite only if all its gradients are.
        let mut modules: FxHashMap<&str, (u64, bool)> = FxHashMap::default();
        for (name, gradient) in gradients() {
            let Some((owner, at)) = self.module_of(name) else { continue };
            let is_finite = gradient.is_finite == Some(true);
            modules.entry(owner).or_insert((at.position, true)).1 &= is_finite;
        }
        let before =
            modules.iter().filter(|(_, (at, is_finite))| *is_finite && *at > seen.position);
        let after = before.min_by_key(|(_, (at, _))| *at).map(|(name, _)| end(name));
        let has_finite_loss =
            self.loss.is_some_and(|loss| loss.pass == self.pass && loss.is_finite == Some(true));
        let is_known = after.is_some() || has_finite_loss;
        is_known.then(|| FaultInterval::Backward { after, until: end(module) })
    }

    /// Returns the interval if the optimizer's step made a parameter non-finite. This is the case
    /// if its gradient was finite.
    pub(super) fn update(&self, parameter: &str) -> Option<FaultInterval> {
        let gradient = self.gradients.get(parameter).filter(|seen| seen.pass == self.pass)?;
        (gradient.is_finite == Some(true)).then_some(FaultInterval::Update)
    }
}

/// Returns the path of a module: `encoder.head` for `[module]Linear: encoder.head`.
fn place(module: &str) -> &str {
    module.split_once(": ").map_or(module, |(_, place)| place)
}

fn end(module: &str) -> IntervalEnd {
    let source = mlprof_events::module_place(module);
    let source = source.map(|at| format!("{}:{}", at.file, at.line));
    IntervalEnd { name: module.to_owned(), source }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use TensorRole::{Gradient, Loss, Output, Update};

    fn module(name: &str) -> String {
        format!("[module]Linear: {name}")
    }

    fn end(name: &str) -> IntervalEnd {
        IntervalEnd { name: module(name), source: None }
    }

    /// Simulates a forward pass through `l1` to `l3`. The gradients arrive in alphabetical order.
    fn pass(loss: bool, gradients: &[(&str, bool)]) -> StepOrder {
        let mut order = StepOrder::default();
        order.begin_pass();
        for name in ["l1", "l2", "l3"] {
            order.add(Output, &module(name), Some(true));
        }
        order.add(Loss, "loss", Some(loss));
        for (name, is_finite) in gradients {
            order.add(Gradient, name, Some(*is_finite));
        }
        order
    }

    #[test]
    fn gradients_are_ordered_from_the_loss_backwards() {
        let all = [("l1.bias", false), ("l2.bias", true), ("l2.weight", false), ("l3.bias", true)];
        let order = pass(true, &all);
        assert!(order.position_of("l2.weight") > order.position_of("l1.bias"));
        let expected = FaultInterval::Backward { after: Some(end("l3")), until: end("l2") };
        assert_eq!(order.backward("l2.weight"), Some(expected));
        let order = pass(true, &[("l1.bias", false), ("l3.bias", false)]);
        let expected = FaultInterval::Backward { after: None, until: end("l3") };
        assert_eq!(order.backward("l3.bias"), Some(expected));
        assert_eq!(pass(false, &[("l3.bias", false)]).backward("l3.bias"), None, "not the loss");
    }

    #[test]
    fn parameters_of_unknown_modules_have_no_order() {
        let order = pass(true, &[("a", false), ("b", false), ("c", true)]);
        assert_eq!(order.position_of("a"), None);
        let expected = FaultInterval::Unordered {
            finite: vec!["c".to_owned()],
            not_finite: vec!["a".to_owned(), "b".to_owned()],
        };
        assert_eq!(order.backward("a"), Some(expected));
        assert_eq!(pass(true, &[("l10.bias", false)]).position_of("l10.bias"), None, "not l1's");
    }

    #[test]
    fn outputs_are_bracketed_by_the_last_finite_one_of_the_same_pass() {
        let mut order = pass(true, &[]);
        order.begin_pass();
        assert_eq!(order.forward(Output, &module("l1"), 1, false), None, "that was another pass");
        order.add(Output, &module("l1"), Some(true));
        let waiting = order.add(Output, &module("l2"), None);
        let position = order.add(Output, &module("l3"), Some(false));
        let until = |after, until| Some(FaultInterval::Forward { after, until });
        let l3 = |order: &StepOrder, finite| order.forward(Output, &module("l3"), position, finite);
        assert_eq!(l3(&order, false), until(end("l1"), end("l3")));
        order.complete(Output, &module("l2"), waiting, true);
        assert_eq!(l3(&order, false), until(end("l2"), end("l3")), "a device has answered");
        assert_eq!(l3(&order, true), None, "its input says it already");
        let loss = order.add(Loss, "loss", Some(false));
        let expected = until(end("l2"), IntervalEnd { name: "loss".to_owned(), source: None });
        assert_eq!(order.forward(Loss, "loss", loss, false), expected);
    }

    #[test]
    fn a_module_inside_of_a_container_says_where_in_it() {
        let mut order = StepOrder::default();
        order.add(Output, &module("block.a"), Some(true));
        let position = order.add(Output, &module("block"), Some(false));
        let found = order.forward(Output, &module("block"), position, true);
        let expected = FaultInterval::Forward { after: end("block.a"), until: end("block") };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn an_update_is_the_optimizers_where_the_gradient_was_finite() {
        let order = pass(true, &[("l1.bias", true), ("l2.bias", false)]);
        assert_eq!(order.update("l1.bias"), Some(FaultInterval::Update));
        assert_eq!((order.update("l2.bias"), order.update("l3.bias")), (None, None));
        assert_eq!(order.forward(Update, "l1.bias", 0, false), None);
    }
}
