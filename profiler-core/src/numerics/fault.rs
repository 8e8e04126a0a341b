//! Detection of the first non-finite tensor and of the place where values became non-finite.

use super::location;
use super::running::{Candidate, Running, op_remedy};
use super::settings::Settings;
use crate::output::say;
use crate::report::numerics::{FaultInterval, RecordedTensor, Rerun};
use mlprof_events::TensorRole;

/// Position of a tensor in its step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Position in the order of the step.
    pub(super) position: u64,
    /// Set if the tensor is reported where it was made, so the thread's stack shows its origin.
    /// Results from a device only arrive at the end of the step.
    pub(super) is_now: bool,
}

impl Running {
    /// Adds a tensor to the order of the step and returns its position. `is_finite` is `None` until
    /// a device has returned its result.
    pub(super) fn add_to_order(
        &mut self,
        role: TensorRole,
        name: &str,
        is_finite: Option<bool>,
    ) -> u64 {
        // Parameters are reported between gradients, so they do not end the sequence of gradients.
        if !matches!(role, TensorRole::Gradient | TensorRole::Parameter) {
            self.settle_gradients();
        }
        self.order.add(role, name, is_finite)
    }

    /// Records the first non-finite tensor, and schedules a recording of the next step with ops.
    /// Returns `true` if `tensor` is the first one so far. An op's output only counts if the op
    /// itself made it non-finite, because its inputs may be infinite on purpose.
    pub(super) fn see_not_finite(&mut self, tensor: &mut RecordedTensor, moment: Moment) -> bool {
        let is_of_op = tensor.role.is_of_op();
        if tensor.statistics.is_finite() || (is_of_op && !tensor.makes_not_finite()) {
            return false;
        }
        if !self.is_rerun {
            self.not_finite += 1;
        }
        if tensor.role == TensorRole::Gradient {
            return self.keep_gradient(tensor, moment);
        }
        if !self.is_first(tensor) && !self.is_first_op(tensor) {
            return false;
        }
        // The location is determined last, because a backtrace is slow.
        tensor.location = moment.is_now.then(location::of_program).flatten();
        tensor.interval = self.interval(tensor, moment).map(Box::new);
        self.name(tensor.clone())
    }

    fn interval(&self, tensor: &RecordedTensor, moment: Moment) -> Option<FaultInterval> {
        match tensor.role {
            TensorRole::Output | TensorRole::Loss => {
                let input_is_finite = tensor.input.is_some_and(|input| input.is_finite());
                self.order.forward(tensor.role, &tensor.name, moment.position, input_is_finite)
            }
            TensorRole::Update => self.order.update(&tensor.name),
            _ => None,
        }
    }

    /// Returns `true` if a non-finite tensor is the first one, or shows the origin better than the
    /// first one did.
    fn is_first(&self, tensor: &RecordedTensor) -> bool {
        if self.is_rerun {
            return self.rerun.as_ref().is_some_and(|rerun| rerun.first_not_finite.is_none());
        }
        let makes_it = tensor.input.is_some() && tensor.makes_not_finite();
        match &self.first_not_finite {
            None => true,
            // The first tensor only passed on non-finite values from an unknown origin, but this
            // module produced them.
            Some(first) => makes_it && !first.makes_not_finite() && first.interval.is_none(),
        }
    }

    /// Returns `true` if the tensor belongs to the first op that produced non-finite values, after
    /// a tensor of another role was found.
    fn is_first_op(&self, tensor: &RecordedTensor) -> bool {
        let known = self.first_op_not_finite.iter().chain(&self.first_not_finite);
        let is_known = known.into_iter().any(|known| known.role.is_of_op());
        !self.is_rerun && tensor.role.is_of_op() && !is_known
    }

    /// Keeps a gradient that may be the first non-finite one. Returns `true` if it is the first one
    /// so far, and not part of a rerun.
    fn keep_gradient(&mut self, tensor: &mut RecordedTensor, moment: Moment) -> bool {
        let position = self.order.position_of(&tensor.name);
        let is_earlier = self.candidate.as_ref().is_none_or(|known| position > known.position);
        if !is_earlier || !self.is_first(tensor) {
            return false;
        }
        // All gradients are reported from the same location.
        let known = self.candidate.take().map(|known| known.tensor.location);
        let find = || moment.is_now.then(location::of_program).flatten();
        tensor.location = known.unwrap_or_else(find);
        self.candidate = Some(Candidate { tensor: tensor.clone(), position });
        !self.is_rerun
    }

    /// Determines the first non-finite gradient after all gradients of the step have been reported.
    pub(super) fn settle_gradients(&mut self) {
        let Some(Candidate { mut tensor, .. }) = self.candidate.take() else { return };
        if self.is_first(&tensor) {
            tensor.interval = self.order.backward(&tensor.name).map(Box::new);
            self.name(tensor);
        }
    }

    /// Prints the tensor and keeps it for the report. Returns `true` if it is the first non-finite
    /// tensor of all.
    fn name(&mut self, tensor: RecordedTensor) -> bool {
        if let Some(rerun) = self.rerun.as_mut().filter(|_| self.is_rerun) {
            rerun.first_not_finite = Some(tensor);
            return false;
        }
        say(format_args!("mlprof: {}", tensor.what_is_not_finite()));
        if !self.is_first(&tensor) {
            self.first_op_not_finite = Some(tensor);
            return false;
        }
        // If the framework is not known, the report gives more details instead.
        let is_known = !tensor.role.is_of_op() && !mlprof_events::frameworks().is_empty();
        let remedy = op_remedy().filter(|_| is_known);
        if let Some(remedy) = remedy.filter(|_| self.first_not_finite.is_none()) {
            say(format_args!("mlprof: help: to name the op, {remedy}"));
        }
        self.is_recorded_next = true;
        self.first_not_finite = Some(tensor);
        true
    }

    /// Ends the step. If it was recorded because of a non-finite tensor, adds a note when no op was
    /// identified.
    pub(super) fn end_closer_look(&mut self, sees_ops: bool) {
        let was_one = self.is_closer_look;
        self.is_closer_look = std::mem::take(&mut self.is_recorded_next);
        let known = self.first_op_not_finite.iter().chain(&self.first_not_finite);
        let is_known = known.into_iter().any(|known| known.role.is_of_op());
        if was_one && sees_ops && !is_known {
            let step = self.step;
            self.note(&format!(
                "no op is named: in step {step}, in which ops were observed, no op turned finite \
                 numbers into NaN or infinity. NumericsProfiler::ops(true) observes ops in every \
                 step"
            ));
        }
    }

    /// Prepares a rerun of this step's batch.
    pub(super) fn begin_rerun(&mut self) {
        self.calls.clear();
        self.order.begin_pass();
        self.is_rerun = true;
        let step = self.step;
        self.rerun = Some(Rerun { step, tensors: 0, first_not_finite: None, failure: None });
    }

    /// Ends the rerun, which may have failed.
    pub(super) fn end_rerun(&mut self, failure: Option<&str>) {
        self.settle_gradients();
        self.is_rerun = false;
        self.calls.clear();
        let Some(rerun) = &mut self.rerun else { return };
        rerun.failure = failure.map(str::to_owned);
        let place = |of: &Option<RecordedTensor>| {
            of.as_ref().map(|tensor| (tensor.role, tensor.name.clone()))
        };
        if failure.is_some() || place(&rerun.first_not_finite) == place(&self.first_not_finite) {
            return;
        }
        match &rerun.first_not_finite {
            Some(first) => {
                say(format_args!("mlprof: rerun, {}", first.what_is_not_finite()));
            }
            None => say(format_args!(
                "mlprof: rerun, the batch of step {} was finite: random operations differed",
                rerun.step
            )),
        }
    }

    /// Processes a tensor that a device has reduced in this step and that was reported at
    /// `position`.
    pub(super) fn see_reduced(
        &mut self,
        mut tensor: RecordedTensor,
        position: u64,
        is_recorded: bool,
        settings: &Settings,
    ) {
        let is_finite = tensor.statistics.is_finite();
        self.order.complete(tensor.role, &tensor.name, position, is_finite);
        self.see_not_finite(&mut tensor, Moment { position, is_now: false });
        if is_recorded {
            self.see(tensor, settings);
        }
    }
}
