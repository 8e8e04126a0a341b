//! Classification of slice names, and the enclosing action, module and op of each slice.

#[cfg(feature = "parquet")]
use mlprof_events::names::waits_for_other_ranks;
use mlprof_events::names::{is_communication_kernel, is_waiting_for_data};
use rustc_hash::FxHashMap;

use crate::answers::{Activity, WorkKind};
pub(crate) use crate::trace::STEP;
use crate::trace::without_library_prefix;
use crate::trace::{ByName, Category, FlowKind, NONE, Name, Slice, Trace};

/// Prefixes of module names, as written by mlprof, Lightning and Python.
const MODULES: [&str; 3] = ["[module]", "[pl][module]", "nn.Module: "];

/// Classification of one name.
#[derive(Debug)]
struct Meaning {
    step: Option<u64>,
    is_batch: bool,
    is_module: bool,
    is_data: bool,
    waits_for_device: bool,
    communicates: bool,
    #[cfg(feature = "parquet")]
    waits_for_ranks: bool,
    /// Innermost module in a `;`-separated list of open slices.
    module: Option<Name>,
}

/// Classification of the slices of a trace.
#[derive(Debug)]
pub(crate) struct Meanings {
    names: ByName<Meaning>,
    /// Index of the innermost action around each slice, or of the slice itself.
    action: Vec<u32>,
    /// Name of the innermost module of each slice. A backward op has the module of its forward op.
    module: Vec<Name>,
    /// For each slice, `true` if the loop waits for data during it.
    is_in_data: Vec<bool>,
    /// Index of the innermost op around each slice, or of the slice itself.
    op: Vec<u32>,
    /// Index of the innermost slice with a collective message around each slice, or of the slice
    /// itself. Empty if no slice has a message.
    described: Vec<u32>,
}

impl Meanings {
    pub(crate) fn of(trace: &Trace) -> Self {
        let names = trace.names.map(|name| Meaning {
            step: name.strip_prefix(STEP).and_then(|number| number.parse().ok()),
            is_batch: is_batch(name),
            is_module: is_module(name),
            is_data: is_waiting_for_data(name) || name.starts_with("enumerate(DataLoader)#"),
            waits_for_device: waits_for_device(name),
            communicates: is_communication_kernel(name),
            #[cfg(feature = "parquet")]
            waits_for_ranks: waits_for_other_ranks(name),
            module: name
                .rsplit(';')
                .find(|open| is_module(open))
                .and_then(|open| trace.names.find(open)),
        });
        let count = trace.slices.len();
        let own = |is_it: bool, place: usize, around: u32| {
            if is_it { place as u32 } else { around } // there are fewer than 2^32
        };
        let is_described = |slice: &Slice| message(trace, slice).is_some();
        let described = match trace.details.iter().any(|it| it.message != Name::EMPTY) {
            true => trace
                .inherited(NONE, |place, slice, around| own(is_described(slice), place, around)),
            false => Vec::new(),
        };
        let mut meanings = Self {
            op: trace.inherited(NONE, |place, slice, around| {
                own(slice.category == Category::CpuOp, place, around)
            }),
            described,
            names,
            action: vec![NONE; count],
            module: vec![Name::EMPTY; count],
            is_in_data: vec![false; count],
        };
        for place in trace.parents_first() {
            let slice = &trace.slices[place];
            if let Some(around) = slice.parent() {
                meanings.action[place] = meanings.action[around];
                meanings.is_in_data[place] = meanings.is_in_data[around];
            }
            if meanings.is_action(slice) {
                meanings.action[place] = place as u32; // there are fewer than 2^32
                meanings.is_in_data[place] |= meanings.names[slice.name].is_data;
            }
        }
        meanings.find_modules(trace, &[]);
        // Backward ops belong to the modules of their forward ops.
        let links: Vec<(u32, Name)> = trace
            .flows
            .iter()
            .filter(|flow| flow.kind == FlowKind::ForwardBackward)
            .map(|flow| (flow.to, meanings.module[flow.from as usize]))
            .collect();
        if !links.is_empty() {
            meanings.find_modules(trace, &links);
        }
        meanings
    }

    /// Finds the module of each slice. `links` contains the modules of backward ops by slice index.
    fn find_modules(&mut self, trace: &Trace, links: &[(u32, Name)]) {
        let links: FxHashMap<u32, Name> = links.iter().copied().collect();
        for place in trace.parents_first() {
            let slice = &trace.slices[place];
            let own = links.get(&(place as u32)).copied();
            let called_from = || {
                let from = trace.details(slice)?.called_from;
                (from != Name::EMPTY).then(|| self.names[from].module).flatten()
            };
            let around = || slice.parent().map(|around| self.module[around]);
            let is_module = self.names[slice.name].is_module && !slice.category.is_on_device();
            self.module[place] = match is_module {
                true => slice.name,
                false => own
                    .filter(|module| *module != Name::EMPTY)
                    .or_else(called_from)
                    .or_else(around)
                    .unwrap_or(Name::EMPTY),
            };
        }
    }

    fn is_action(&self, slice: &Slice) -> bool {
        let meaning = &self.names[slice.name];
        slice.category == Category::UserAnnotation && !meaning.is_module && meaning.step.is_none()
    }

    /// Returns the step number of a step slice.
    pub(crate) fn step(&self, slice: &Slice) -> Option<u64> {
        let is_step = slice.category == Category::UserAnnotation;
        self.names[slice.name].step.filter(|_| is_step)
    }

    /// Returns `true` if a slice is a batch of an inference server.
    pub(crate) fn is_batch(&self, slice: &Slice) -> bool {
        slice.category == Category::UserAnnotation && self.names[slice.name].is_batch
    }

    /// Returns the index of the innermost action around a slice, or of the slice itself if it is an
    /// action.
    pub(crate) fn action(&self, place: usize) -> Option<usize> {
        (self.action[place] != NONE).then_some(self.action[place] as usize)
    }

    /// Returns the index of the innermost op around a slice, or of the slice itself if it is an op.
    pub(crate) fn op(&self, place: usize) -> Option<usize> {
        (self.op[place] != NONE).then_some(self.op[place] as usize)
    }

    /// Returns the index of the innermost slice with a collective message around a slice, or of the
    /// slice itself.
    pub(crate) fn described(&self, place: usize) -> Option<usize> {
        let described = self.described.get(place).filter(|described| **described != NONE);
        described.map(|described| *described as usize)
    }

    /// Returns the module of a slice.
    pub(crate) fn module(&self, place: usize) -> Option<Name> {
        (self.module[place] != Name::EMPTY).then_some(self.module[place])
    }

    /// Returns `true` if a slice is the forward call of a module.
    pub(crate) fn is_module(&self, slice: &Slice) -> bool {
        self.names[slice.name].is_module && !slice.category.is_on_device()
    }

    /// Returns `true` if the loop waits for data during a slice.
    pub(crate) fn is_in_data(&self, place: usize) -> bool {
        self.is_in_data[place]
    }

    /// Returns `true` if a slice is a call that waits for a device.
    pub(crate) fn waits_for_device(&self, slice: &Slice) -> bool {
        slice.category.is_runtime() && self.names[slice.name].waits_for_device
    }

    /// Returns the activity of a thread with this innermost open slice.
    pub(crate) fn activity(&self, trace: &Trace, innermost: Option<usize>) -> Activity {
        let Some(place) = innermost else { return Activity::Nothing };
        let slice = &trace.slices[place];
        match slice.category {
            _ if self.step(slice).is_some() => Activity::Nothing,
            Category::CpuOp => Activity::Op,
            Category::UserAnnotation if self.names[slice.name].is_data => Activity::WaitingForData,
            Category::UserAnnotation => Activity::Annotation,
            Category::PythonFunction => Activity::Python,
            _ if self.waits_for_device(slice) => Activity::WaitingForDevice,
            Category::CudaRuntime | Category::CudaDriver => Activity::Runtime,
            Category::Overhead => Activity::Overhead,
            _ => Activity::Other,
        }
    }

    /// Returns `true` if the name of a kernel is that of a communication kernel.
    pub(crate) fn communicates(&self, slice: &Slice) -> bool {
        self.names[slice.name].communicates
    }

    /// Returns the kind of device work of a slice, or `None` for host slices.
    pub(crate) fn work(&self, slice: &Slice) -> Option<WorkKind> {
        match slice.category {
            Category::Kernel if self.names[slice.name].communicates => {
                Some(WorkKind::Communication)
            }
            Category::Kernel => Some(WorkKind::Compute),
            Category::GpuMemcpy | Category::GpuMemset => Some(WorkKind::Memory),
            _ => None,
        }
    }
}

/// Classification of actions that wait for other ranks.
#[cfg(feature = "parquet")]
impl Meanings {
    pub(crate) fn waits_for_ranks(&self, trace: &Trace, slice: &Slice) -> bool {
        let is_marked = || trace.details(slice).is_some_and(|details| details.collective.is_some());
        let is_action = slice.category == Category::UserAnnotation && !self.is_module(slice);
        is_action && (self.names[slice.name].waits_for_ranks || is_marked())
    }
}

/// Returns the kind of work of a category and name.
#[cfg(feature = "parquet")]
pub(crate) fn work_of(category: Category, name: &str) -> Option<WorkKind> {
    match category {
        Category::Kernel if is_communication_kernel(name) => Some(WorkKind::Communication),
        Category::Kernel => Some(WorkKind::Compute),
        Category::GpuMemcpy | Category::GpuMemset => Some(WorkKind::Memory),
        Category::UserAnnotation if waits_for_other_ranks(name) => Some(WorkKind::Communication),
        _ => None,
    }
}

/// Returns the collective message of a slice itself.
pub(crate) fn message(trace: &Trace, slice: &Slice) -> Option<Name> {
    let message = trace.details(slice)?.message;
    (message != Name::EMPTY).then_some(message)
}

/// Returns `true` for batches of inference servers.
///
/// Examples are vLLM's `execute_context_1(888)_generation_0(0)` and `execute_new_3_cached_5`, and
/// SGLang's `step[DECODE bs=32]`.
fn is_batch(name: &str) -> bool {
    let of_vllm = name.strip_prefix("execute_").is_some_and(|rest| {
        ["context_", "new_", "model"].iter().any(|begin| rest.starts_with(begin))
    });
    of_vllm || (name.starts_with("step[") && name.ends_with(']'))
}

pub(crate) fn is_module(name: &str) -> bool {
    MODULES.iter().any(|begin| name.starts_with(begin))
}

/// Returns `true` for calls that block until a device has finished some work.
pub(crate) fn waits_for_device(name: &str) -> bool {
    let Some(rest) = without_library_prefix(name) else { return false };
    let rest = rest.split("_v").next().unwrap_or(rest);
    let is_copy = rest.starts_with("Memcpy") && !rest.contains("Async");
    rest.ends_with("Synchronize") || is_copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_servers_are_known() {
        for name in [
            "execute_context_1(888_788544)_generation_0(0)",
            "execute_new_3_cached_5",
            "execute_model",
            "step[DECODE bs=32]",
            "step[EXTEND bs=1 toks=128]",
        ] {
            assert!(is_batch(name), "{name}");
        }
        for name in ["execute_query", "execute", "step", "step[0].mul", "ProfilerStep#1"] {
            assert!(!is_batch(name), "{name}");
        }
    }

    #[test]
    fn calls_that_wait_are_known() {
        for name in [
            "cudaDeviceSynchronize",
            "cudaStreamSynchronize",
            "cuCtxSynchronize",
            "hipEventSynchronize",
            "cudaMemcpy",
            "cuMemcpyDtoH_v2",
            "cudaMemcpy2D",
            "hipMemcpyWithStream",
        ] {
            assert!(waits_for_device(name), "{name}");
        }
        for name in [
            "cudaLaunchKernel",
            "cudaMemcpyAsync",
            "cuMemcpyDtoHAsync_v2",
            "cudaEventQuery",
            "Synchronize",
        ] {
            assert!(!waits_for_device(name), "{name}");
        }
    }

    #[test]
    fn an_op_called_from_a_module_alone_belongs_to_it() {
        for (called_from, module) in [
            ("[module]Linear: fc", Some("[module]Linear: fc")),
            ("step;[module]Linear: fc", Some("[module]Linear: fc")),
            ("[module]Net;[module]Linear: fc;aten::linear", Some("[module]Linear: fc")),
            ("step", None),
        ] {
            let json = format!(
                r#"{{"traceEvents":[
                {{"ph":"X","cat":"user_annotation","name":"[module]Linear: fc","pid":1,"tid":1,"ts":1,"dur":9}},
                {{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":2,"ts":1,"dur":5,
                 "args":{{"Called from":"{called_from}"}}}}]}}"#
            );
            let trace = crate::kineto::read(json.as_bytes()).expect("a trace");
            let op = trace.slices.iter().position(|slice| slice.category == Category::CpuOp);
            let found = Meanings::of(&trace).module(op.expect("an op"));
            let found = found.map(|name| trace.names.text(name));
            assert_eq!(found, module, "{called_from}");
        }
    }
}
