//! The handles of ops, fused blocks and kernels, each looked up once per thread.

use std::collections::HashMap;
use std::sync::LazyLock;

use burn::backend::ir::OperationIr;
use burn::cubecl::config::{TypeNameFormatLevel, type_name_format};
use profiler_core::{Action, ActionKind};

use super::names::{OpName, op_name};

/// Fused blocks begin with this; all other ops are what a program called.
pub const FUSED: &str = "burn::fused[";
/// Handing a kernel to the device.
pub const LAUNCH: &str = "cubecl::launch";
/// [`LAUNCH`] of a kernel for the first time since this process is recorded: what it is compiled in.
pub const FIRST_LAUNCH: &str = "cubecl::first_launch";
/// Handing a kernel to the device to see how fast it is.
pub const TUNING_LAUNCH: &str = "cubecl::tuning_launch";
/// From the first trial of a kernel to the last one, by the host's clock.
pub const AUTOTUNE: &str = "cubecl::autotune";

/// How many ops a fused block's name spells out.
const NAMED_OPS: usize = 6;

/// One thread's handles.
#[derive(Default)]
pub(super) struct Actions {
    known: HashMap<&'static str, Action>,
    fused: HashMap<Box<[Action]>, Action>,
    kernels: HashMap<&'static str, Action>,
    /// The ops of the block that is looked up.
    block: Vec<Action>,
}

impl Actions {
    /// `None` for what is no op.
    pub(super) fn op(&mut self, op: &OperationIr) -> Option<Action> {
        match op_name(op) {
            OpName::Bookkeeping => None,
            OpName::Known(name) => {
                Some(*self.known.entry(name).or_insert_with(|| Action::op(name)))
            }
            OpName::Custom(name) => Some(Action::op(&format!("burn::custom[{name}]"))),
        }
    }

    /// A block of several ops.
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

    /// A kernel, by the name of its Rust type.
    pub(super) fn kernel(&mut self, type_name: &'static str) -> Action {
        *self.kernels.entry(type_name).or_insert_with(|| kernel(type_name))
    }
}

/// `burn::fused[add, mul×3, relu, +4]`: the first ops, runs of the same one counted.
fn fused_name(block: &[Action]) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for action in block {
        let name = action.name();
        let name = name.strip_prefix("burn::").unwrap_or(name);
        match runs.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => runs.push((name, 1)),
        }
    }
    let mut parts: Vec<_> = runs.iter().take(NAMED_OPS).map(run_name).collect();
    let rest: usize = runs.iter().skip(NAMED_OPS).map(|(_, count)| count).sum();
    if rest > 0 {
        parts.push(format!("+{rest}"));
    }
    format!("{FUSED}{}]", parts.join(", "))
}

fn run_name((name, count): &(&str, usize)) -> String {
    if *count == 1 { (*name).to_owned() } else { format!("{name}×{count}") }
}

fn kernel(type_name: &str) -> Action {
    let name = kernel_name(&type_name_format(type_name, TypeNameFormatLevel::Balanced));
    Action::of_kind(ActionKind::Kernel, &name, None)
}

/// How many parts of a kernel's name are kept.
const NAME_PARTS: usize = 6;

/// cubecl names a kernel by its type and all of that type's parameters, dozens for a matmul: what
/// tells kernels apart are the first few that are more than placeholders.
fn kernel_name(all: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in all.split(" | ") {
        let is_placeholder = part == "()" || part.starts_with("__") || part.starts_with("Dynamic");
        if !is_placeholder && !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.truncate(NAME_PARTS);
    if parts.is_empty() { all.to_owned() } else { parts.join(" | ") }
}

/// The kinds of launches.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fused_block_is_named_by_its_ops_and_cut() {
        let block = |names: &[&str]| {
            let actions: Vec<_> = names.iter().map(|name| Action::op(name)).collect();
            fused_name(&actions)
        };
        assert_eq!(block(&["burn::add", "burn::relu"]), "burn::fused[add, relu]");
        let repeated = ["burn::mul", "burn::mul", "burn::add", "burn::mul"];
        assert_eq!(block(&repeated), "burn::fused[mul×2, add, mul]");
        let many = ["burn::a", "b", "c", "d", "e", "f", "g", "g", "h"];
        assert_eq!(block(&many), "burn::fused[a, b, c, d, e, f, +3]");
    }

    #[test]
    fn a_kernel_keeps_the_parts_of_its_name_that_say_something() {
        let name =
            "MatmulEntry | TensorArgs | DynamicScalar | __Lhs | SimpleFamily | () | A | A | B";
        assert_eq!(kernel_name(name), "MatmulEntry | TensorArgs | SimpleFamily | A | B");
        assert_eq!(kernel_name("UnaryNumeric | Copy"), "UnaryNumeric | Copy");
        assert_eq!(kernel_name("()"), "()");
    }
}
