//! mlprof's own profilers.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mlprof_core::SourceLocation;
use mlprof_core::hook::{InputsBuilder, OpStart};
use mlprof_core::{
    Action, ActionKind, Activated, AdvancedProfiler, Profiler, ProfilerExt, RunContext,
    SimpleProfiler, Stage, TensorProfiler, activate, active, profile,
};

use super::inputs_of_linear;
use crate::harness::{Subject, time, work};

/// Wraps a profiler in a trait object, as models and plugins do. The compiler must not know its
/// concrete type.
pub(super) fn behind_dyn(profiler: impl Profiler + 'static) -> Arc<dyn Profiler> {
    black_box(Arc::new(profiler))
}

/// `profile!` without an active profiler.
pub struct Off;

impl Subject for Off {
    fn name(&self) -> &'static str {
        "off"
    }

    fn begin(&self) {
        assert!(active().is_none(), "another subject left its profiler active");
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| {
            let _scope = profile!("training_step");
            work(call);
        })
    }
}

/// The Simple profiler with an interned name.
pub struct Simple {
    profiler: Arc<dyn Profiler>,
    action: Action,
}

impl Simple {
    /// Creates the subject with a separate profiler.
    pub fn new() -> Self {
        let profiler = behind_dyn(SimpleProfiler::new());
        Self { profiler, action: Action::new("training_step") }
    }
}

impl Subject for Simple {
    fn name(&self) -> &'static str {
        "simple"
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| {
            let _scope = self.profiler.profile(self.action);
            work(call);
        })
    }
}

/// The Simple profiler with a string literal, the usual form in programs.
pub struct SimpleStr(Arc<dyn Profiler>);

impl SimpleStr {
    /// Creates the subject with a separate profiler.
    pub fn new() -> Self {
        Self(behind_dyn(SimpleProfiler::new()))
    }
}

impl Subject for SimpleStr {
    fn name(&self) -> &'static str {
        "simple_str"
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| {
            let _scope = self.0.profile("training_step");
            work(call);
        })
    }
}

/// The Simple profiler as the active one, through `profile!`.
pub struct SimpleMacro {
    profiler: Arc<dyn Profiler>,
    activated: Mutex<Option<Activated>>,
}

impl SimpleMacro {
    /// Creates the subject with a separate profiler, which is active only during its phases.
    pub fn new() -> Self {
        Self { profiler: behind_dyn(SimpleProfiler::new()), activated: Mutex::default() }
    }

    fn set(&self, activated: Option<Activated>) {
        *self.activated.lock().unwrap_or_else(PoisonError::into_inner) = activated;
    }
}

impl Subject for SimpleMacro {
    fn name(&self) -> &'static str {
        "simple_macro"
    }

    fn begin(&self) {
        self.set(Some(activate(self.profiler.clone())));
    }

    fn end(&self) {
        self.set(None);
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| {
            let _scope = profile!("training_step");
            work(call);
        })
    }
}

/// The Advanced profiler with eight functions in turn below an open action.
pub struct Advanced {
    profiler: Arc<dyn Profiler>,
    functions: [Action; 8],
}

impl Advanced {
    /// Creates the subject with a separate profiler.
    pub fn new() -> Self {
        let function = |index: usize| {
            let line = 1 + u32::try_from(index).unwrap_or(0);
            let location = SourceLocation { file: "model.rs", line };
            Action::with_location(ActionKind::Function, &format!("layer_{index}"), location)
        };
        let functions = std::array::from_fn(function);
        Self { profiler: behind_dyn(AdvancedProfiler::new()), functions }
    }
}

impl Subject for Advanced {
    fn name(&self) -> &'static str {
        "advanced"
    }

    fn slice(&self, scopes: usize) -> Duration {
        let _training_step = self.profiler.profile("training_step");
        time(scopes, |call| {
            let _scope = self.profiler.profile(self.functions[call % 8]);
            work(call);
        })
    }
}

/// The Advanced profiler's [`step`](ProfilerExt::step), which a program calls once per training
/// batch. It is not a scope, but it is timed like one.
pub struct AdvancedStep {
    profiler: Arc<dyn Profiler>,
}

impl AdvancedStep {
    /// Creates the subject with a separate profiler.
    pub fn new() -> Self {
        Self { profiler: behind_dyn(AdvancedProfiler::new()) }
    }
}

impl Subject for AdvancedStep {
    fn name(&self) -> &'static str {
        "advanced_step"
    }

    fn slice(&self, scopes: usize) -> Duration {
        // The thread must have recorded an action, because otherwise the step is empty.
        drop(self.profiler.profile("training_step"));
        time(scopes, |call| {
            self.profiler.step();
            work(call);
        })
    }
}

/// The Simple and the Advanced profiler in combination.
pub struct MultiProfiler {
    profiler: Arc<dyn Profiler>,
    action: Action,
}

impl MultiProfiler {
    /// Creates the subject with separate profilers.
    pub fn new() -> Self {
        let profiler = behind_dyn(mlprof_core::MultiProfiler::new(simple_and_advanced()));
        Self { profiler, action: Action::new("training_step") }
    }
}

impl Subject for MultiProfiler {
    fn name(&self) -> &'static str {
        "several"
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| {
            let _scope = self.profiler.profile(self.action);
            work(call);
        })
    }
}

/// Both profilers, called one after the other without a combining profiler. The cost exceeds the
/// sum of the single costs, because the CPU can overlap two counter readings with less other work.
pub struct BothByHand {
    parts: [Arc<dyn Profiler>; 2],
    action: Action,
}

impl BothByHand {
    /// Creates the subject with separate profilers.
    pub fn new() -> Self {
        Self { parts: simple_and_advanced(), action: Action::new("training_step") }
    }
}

impl Subject for BothByHand {
    fn name(&self) -> &'static str {
        "both_by_hand"
    }

    fn slice(&self, scopes: usize) -> Duration {
        let [simple, advanced] = &self.parts;
        time(scopes, |call| {
            simple.start(self.action);
            advanced.start(self.action);
            work(call);
            let _ = advanced.stop(self.action);
            let _ = simple.stop(self.action);
        })
    }
}

fn simple_and_advanced() -> [Arc<dyn Profiler>; 2] {
    [behind_dyn(SimpleProfiler::new()), behind_dyn(AdvancedProfiler::new())]
}

/// The Tensor profiler, called as by hooks: eight ops in turn, inside an open action.
pub struct Tensor {
    name: &'static str,
    profiler: Arc<dyn Profiler>,
    ops: [Action; 8],
    /// Inputs of a linear layer: input, weight and bias.
    inputs: Option<[InputsBuilder; 8]>,
}

impl Tensor {
    /// Creates the subject that records only names and times.
    pub fn ops() -> Self {
        Self::named("tensor_op", None)
    }

    /// Creates the subject that also records the shapes of three inputs, which are passed with
    /// every op.
    pub fn ops_with_shapes() -> Self {
        Self::named("tensor_op_shapes", Some(std::array::from_fn(inputs_of_linear)))
    }

    fn named(name: &'static str, inputs: Option<[InputsBuilder; 8]>) -> Self {
        let profiler = behind_dyn(TensorProfiler::new().without_schedule());
        let ops = std::array::from_fn(|index| Action::op(&format!("aten::op_{index}")));
        Self { name, profiler, ops, inputs }
    }
}

impl Subject for Tensor {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&self) {
        self.profiler.setup(Stage::Fit, &RunContext::default());
    }

    fn end(&self) {
        self.profiler.teardown(Some(Stage::Fit));
    }

    fn slice(&self, scopes: usize) -> Duration {
        let _training_step = self.profiler.profile("training_step");
        time(scopes, |call| {
            let mut op = OpStart::new(self.ops[call % 8]);
            op.inputs = self.inputs.as_ref().map(|inputs| &inputs[call % 8]);
            self.profiler.start_op(&op);
            work(call);
            let _ = self.profiler.stop(op.action);
        })
    }
}
