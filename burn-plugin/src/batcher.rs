//! Measures batching separately from reading items.

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::Device;
use mlprof_core::{Action, ActiveScope, Binding, Interest};

use crate::actions;

/// A batcher whose calls are measured. They create tensors from items and move them to the device,
/// which Lightning shows as `batch_to_device`. Without this wrapper, that time is part of
/// `train_dataloader_next`.
///
/// ```
/// use burn::data::dataloader::{DataLoaderBuilder, batcher::Batcher};
/// use burn::data::dataset::InMemDataset;
/// use burn::tensor::{Device, Tensor};
/// use mlprof_burn::ProfiledBatcher;
///
/// struct Points;
/// impl Batcher<f32, Tensor<1>> for Points {
///     fn batch(&self, items: Vec<f32>, device: &Device) -> Tensor<1> {
///         Tensor::from_floats(items.as_slice(), device)
///     }
/// }
/// let points = InMemDataset::new(vec![1.0, 2.0, 3.0]);
/// let loader = DataLoaderBuilder::new(ProfiledBatcher::new(Points)).batch_size(2).build(points);
/// assert_eq!(loader.iter().count(), 2);
/// ```
///
/// If the loader has worker threads, the row belongs to those threads and not to the loop. *Cost*
/// without an active profiler: one relaxed load per batch.
#[derive(Debug, Clone)]
pub struct ProfiledBatcher<B> {
    batcher: B,
    action: Action,
    /// Binds the profiler to the loader's worker threads, which call the batcher.
    binding: Binding,
}

impl<B> ProfiledBatcher<B> {
    /// Creates a batcher that measures `batcher` as `[Batcher]{its type}.batch`.
    pub fn new(batcher: B) -> Self {
        Self { batcher, action: Action::new(&actions::batcher::<B>()), binding: Binding::current() }
    }
}

impl<I, O, B: Batcher<I, O>> Batcher<I, O> for ProfiledBatcher<B> {
    fn batch(&self, items: Vec<I>, device: &Device) -> O {
        let _bound = self.binding.bind();
        let _scope = ActiveScope::open(|| self.action, Interest::ACTIONS);
        self.batcher.batch(items, device)
    }
}
