//! The subjects: the floor, mlprof and other profilers.

mod floor;
mod many;
mod mutex_hashmap;
mod ours;
mod peers;
mod spliced;

use mlprof_core::hook::{DType, InputsBuilder};

use crate::harness::Subject;

/// Returns all subjects in table order.
pub fn all() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(floor::Floor),
        Box::new(ours::Off),
        Box::new(ours::Simple::new()),
        Box::new(ours::SimpleStr::new()),
        Box::new(ours::SimpleMacro::new()),
        Box::new(ours::Advanced::new()),
        Box::new(ours::AdvancedStep::new()),
        Box::new(ours::BothByHand::new()),
        Box::new(ours::MultiProfiler::new()),
        Box::new(ours::Tensor::ops()),
        Box::new(ours::Tensor::ops_with_shapes()),
        Box::new(spliced::Spliced::new()),
        Box::new(many::ManyNames::simple()),
        Box::new(many::ManyNames::advanced()),
        Box::new(many::Deep::simple()),
        Box::new(many::Deep::advanced()),
        Box::new(peers::Hotpath::new()),
        Box::new(peers::Tracing::new()),
        Box::new(peers::Fastrace::new()),
        Box::new(peers::Puffin::new()),
        Box::new(mutex_hashmap::MutexHashMap::default()),
    ]
}

/// Returns input, weight and bias of one of several linear layers.
fn inputs_of_linear(index: usize) -> InputsBuilder {
    let mut inputs = InputsBuilder::new();
    inputs.tensor(DType::Float32, &[32, 64 + index as i64]);
    inputs.tensor(DType::Float32, &[64 + index as i64, 128]);
    inputs.tensor(DType::Float32, &[128]);
    inputs
}
