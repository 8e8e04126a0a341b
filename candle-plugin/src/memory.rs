//! Memory categories of tensors on the host, for profilers of the allocator.

use candle_core::{CpuStorage, Storage, Tensor};
use mlprof_core::Interest;
use mlprof_core::allocation::{KeptBlock, is_installed, kept_by};
use mlprof_core::hook::{self, MemoryCategory, MemoryDevice, MemoryLabel};

use crate::named_vars::NamedVars;

/// Memory of an optimizer's variables and of its state. candle's optimizers do not expose their
/// state: it is the memory that is allocated while the optimizer is made.
#[derive(Debug, Default)]
pub(crate) struct OptimizerMemory {
    vars: NamedVars,
    /// Blocks of the state. `None` for an optimizer that existed before.
    state: Option<Vec<KeptBlock>>,
}

impl OptimizerMemory {
    /// Calls `make`, which creates an optimizer of `vars`, and records its allocations.
    pub(crate) fn of<O>(vars: &NamedVars, make: impl FnOnce() -> O) -> (O, Self) {
        let (optimizer, state) = kept_by(make);
        (optimizer, Self { vars: vars.clone(), state: Some(state) })
    }

    /// Creates the record of an optimizer that already exists, so that its state is unknown.
    pub(crate) fn of_variables(vars: &NamedVars) -> Self {
        Self { vars: vars.clone(), state: None }
    }

    /// Returns the variables of the optimizer, as far as they are known.
    pub(crate) fn variables(&self) -> &NamedVars {
        &self.vars
    }

    /// Labels the memory if a profiler records it. *Cost* otherwise: one relaxed load.
    pub(crate) fn label(&self) {
        if !hook::interest().contains(Interest::MEMORY) {
            return;
        }
        for var in self.vars.vars() {
            if let Some(block) = on_the_host(var.as_tensor()) {
                report_label(block, MemoryCategory::Parameter);
            }
        }
        match &self.state {
            Some(blocks) => {
                blocks
                    .iter()
                    .for_each(|block| report_label(*block, MemoryCategory::OptimizerState));
            }
            None if is_installed() => hook::note(
                "memory has no optimizer state, because candle's optimizers do not expose it: \
                 create the optimizer with `CandleOptimizer::<AdamW>::new(vars, config)` or \
                 `ProfiledOptimizer::<AdamW>::new(vars, config)`",
            ),
            None => {}
        }
    }
}

fn report_label(block: KeptBlock, category: MemoryCategory) {
    let KeptBlock { address, bytes } = block;
    hook::label_memory(&MemoryLabel { address, bytes, device: MemoryDevice::Cpu, category });
}

/// Returns the memory block of a tensor in host memory, or `None` for other devices.
fn on_the_host(tensor: &Tensor) -> Option<KeptBlock> {
    fn block<T>(values: &Vec<T>) -> KeptBlock {
        let bytes = values.capacity() * size_of::<T>();
        KeptBlock { address: values.as_ptr().addr() as u64, bytes: bytes as u64 }
    }
    let (storage, _layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { return None };
    Some(match storage {
        CpuStorage::F32(values) => block(values),
        CpuStorage::F64(values) => block(values),
        CpuStorage::F16(values) => block(values),
        CpuStorage::BF16(values) => block(values),
        CpuStorage::U8(values) => block(values),
        CpuStorage::U32(values) => block(values),
        CpuStorage::I64(values) => block(values),
        _ => return None, // candle does not train these types
    })
}
