//! Action handles of ops, fused blocks and kernels, each interned once per thread.

use std::collections::HashMap;
use std::sync::LazyLock;

use burn::backend::ir::OperationIr;
use burn::cubecl::config::{TypeNameFormatLevel, type_name_format};
use mlprof_core::{Action, ActionKind};

use super::labels::{fused_name, kernel_name};
use super::names::{OpName, op_name};

/// Submission of a kernel to the device.
pub const LAUNCH: &str = "cubecl::launch";
/// [`LAUNCH`] of a kernel for the first time since recording began in this process. It includes the
/// kernel's compilation.
pub const FIRST_LAUNCH: &str = "cubecl::first_launch";
/// Submission of a kernel to the device for autotuning.
pub const TUNING_LAUNCH: &str = "cubecl::tuning_launch";
/// Host time from the first to the last autotuning trial.
pub const AUTOTUNE: &str = "cubecl::autotune";

/// Interned handles of one thread.
#[derive(Default)]
pub(super) struct Actions {
    known: HashMap<&'static str, Action>,
    fused: HashMap<Box<[Action]>, Action>,
    kernels: HashMap<&'static str, Action>,
    /// Reusable buffer for the ops of the block that is looked up.
    block: Vec<Action>,
}

impl Actions {
    /// Returns the action of `op`, or `None` for operations that do not count as ops.
    pub(super) fn op(&mut self, op: &OperationIr) -> Option<Action> {
        match op_name(op) {
            OpName::Bookkeeping => None,
            OpName::Known(name) => {
                Some(*self.known.entry(name).or_insert_with(|| Action::op(name)))
            }
            OpName::Custom(name) => Some(Action::op(&format!("burn::custom[{name}]"))),
        }
    }

    /// Returns the action of a block of several ops.
    pub(super) fn fused(&mut self, ops: &[&OperationIr]) -> Action {
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        block.extend(ops.iter().filter_map(|op| self.op(op)));
        let action = match self.fused.get(&*block) {
            Some(action) => *action,
            None => {
                let action = Action::op(&fused_name(&block));
                self.fused.insert(block.as_slice().into(), action);
                action
            }
        };
        self.block = block;
        action
    }

    /// Returns the action of a kernel, given the name of its Rust type.
    pub(super) fn kernel(&mut self, type_name: &'static str) -> Action {
        *self.kernels.entry(type_name).or_insert_with(|| kernel(type_name))
    }
}

fn kernel(type_name: &str) -> Action {
    let name = kernel_name(&type_name_format(type_name, TypeNameFormatLevel::Balanced));
    Action::of_kind(ActionKind::Kernel, &name, None)
}

/// Actions of the kinds of launches.
pub(super) struct Launches {
    pub(super) warm: Action,
    pub(super) first: Action,
    pub(super) tuning: Action,
}

pub(super) fn launches() -> &'static Launches {
    static LAUNCHES: LazyLock<Launches> = LazyLock::new(|| {
        let launch = |name| Action::of_kind(ActionKind::Launch, name, None);
        let (warm, first) = (launch(LAUNCH), launch(FIRST_LAUNCH));
        Launches { warm, first, tuning: launch(TUNING_LAUNCH) }
    });
    &LAUNCHES
}

pub(super) fn autotune() -> Action {
    Action::of_kind(ActionKind::Kernel, AUTOTUNE, None)
}
