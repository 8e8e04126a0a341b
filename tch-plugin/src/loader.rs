//! A loader that splits tensors into batches.

use mlprof_train::{DataLoader, EpochContext, Result};
use tch::{TchError, Tensor};

use crate::ops::label_input;

/// Splits inputs and targets into batches along the first dimension and returns them as `(Tensor,
/// Tensor)` for a [`Trainer`](mlprof_train::Trainer). The last batch may be smaller.
///
/// [`tch::data::Iter2`] does the same for a single pass over the data, but the trainer makes many
/// passes. A `Vec` of batches cannot be a loader, because tensors cannot be cloned.
///
/// ```
/// use tch::{Kind, Tensor, kind::FLOAT_CPU};
/// use mlprof_tch::TensorLoader;
///
/// let (images, labels) = (Tensor::rand([100, 64], FLOAT_CPU), Tensor::zeros([100], FLOAT_CPU));
/// let train = TensorLoader::new(images, labels.to_kind(Kind::Int64), 32)?.shuffled();
/// assert_eq!(train.len(), 4);
/// # Ok::<(), tch::TchError>(())
/// ```
#[derive(Debug)]
pub struct TensorLoader {
    inputs: Tensor,
    targets: Tensor,
    items: usize,
    batch_size: usize,
    shuffles: bool,
}

impl TensorLoader {
    /// Creates a loader that returns all items in their order.
    ///
    /// # Errors
    ///
    /// Returns [`TchError::Shape`] if the number of inputs differs from the number of targets, or
    /// if `batch_size` is 0.
    pub fn new(inputs: Tensor, targets: Tensor, batch_size: usize) -> Result<Self, TchError> {
        let (input_shape, target_shape) = (inputs.size(), targets.size());
        let refused = |what: &str| {
            TchError::Shape(format!(
                "cannot create a TensorLoader of inputs {input_shape:?} and targets \
                 {target_shape:?} in batches of {batch_size}: {what}"
            ))
        };
        let items = match (input_shape.first(), target_shape.first()) {
            (Some(inputs), Some(targets)) if inputs == targets => *inputs as usize,
            _ => return Err(refused("both need an equal first dimension")),
        };
        if batch_size == 0 {
            return Err(refused("use 1 or more"));
        }
        crate::ops::install();
        Ok(Self { inputs, targets, items, batch_size, shuffles: false })
    }

    /// Shuffles the items differently in each epoch. The order depends on the trainer's seed and
    /// does not use torch's random numbers.
    ///
    /// With several processes, each process receives a share with the same number of batches of the
    /// same sizes. If the items do not divide evenly, a few items are used by two processes.
    /// Without this setting, every process receives all items.
    #[must_use]
    pub fn shuffled(mut self) -> Self {
        self.shuffles = true;
        self
    }

    /// Returns the number of batches per process.
    pub fn len(&self) -> usize {
        self.items.div_ceil(self.batch_size)
    }

    /// Returns `true` if the loader has no batches.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    fn order(&self, context: &EpochContext) -> Vec<i64> {
        let mut order: Vec<i64> = (0..self.items as i64).collect();
        if !self.shuffles {
            return order;
        }
        // The seed passes through the generator first. Otherwise, seed 1 in epoch 2 would equal
        // seed 2 in epoch 1.
        let of_seed = fastrand::Rng::with_seed(context.seed).u64(..);
        let of_epoch = of_seed.wrapping_add(context.epoch as u64);
        fastrand::Rng::with_seed(of_epoch).shuffle(&mut order);
        let processes = context.world_size.max(1) as usize;
        let own = self.items.div_ceil(processes);
        let first = context.rank as usize % processes;
        order.iter().copied().cycle().skip(first).step_by(processes).take(own).collect()
    }

    fn batch(&self, items: &[i64]) -> Result<(Tensor, Tensor)> {
        let items = Tensor::f_from_slice(items)?;
        let select = |from: &Tensor| from.f_index_select(0, &items.f_to_device(from.device())?);
        let batch = (select(&self.inputs)?, select(&self.targets)?);
        label_input(&batch.0);
        label_input(&batch.1);
        Ok(batch)
    }
}

impl DataLoader<(Tensor, Tensor)> for TensorLoader {
    fn batches<'loader>(
        &'loader self,
        context: &EpochContext,
    ) -> Result<Box<dyn Iterator<Item = Result<(Tensor, Tensor)>> + 'loader>> {
        let order = self.order(context);
        let batches = order.len().div_ceil(self.batch_size);
        Ok(Box::new((0..batches).map(move |batch| {
            let rest = &order[batch * self.batch_size..];
            self.batch(&rest[..rest.len().min(self.batch_size)])
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlprof_core::RunContext;
    use mlprof_train::{Optimizers, TrainModule, Trainer, TrainerState};
    use tch::kind::{FLOAT_CPU, INT64_CPU};

    fn numbered(items: i64, batch_size: usize) -> TensorLoader {
        let inputs = Tensor::arange(items, INT64_CPU);
        let targets = &inputs * 10;
        TensorLoader::new(inputs, targets, batch_size).expect("equal numbers")
    }

    /// A module that records the batches it receives.
    #[derive(Default)]
    struct Keeper(Vec<Vec<i64>>);

    impl TrainModule for Keeper {
        type Batch = (Tensor, Tensor);
        type Optimizer = crate::TchOptimizer;

        fn configure_optimizers(&mut self) -> Result<Optimizers<crate::TchOptimizer>> {
            Err("it only predicts".into())
        }

        fn training_step(&mut self, _: &Self::Batch, _: &mut TrainerState) -> Result<Tensor> {
            Err("it only predicts".into())
        }

        fn predict_step(
            &mut self,
            (inputs, targets): &Self::Batch,
            _: &mut TrainerState,
        ) -> Result<()> {
            assert_eq!(&(inputs * 10), targets, "items stay together");
            self.0.push(Vec::try_from(inputs)?);
            Ok(())
        }
    }

    fn epoch(loader: &TensorLoader, seed: u64, (rank, world_size): (u32, u32)) -> Vec<Vec<i64>> {
        let mut run = RunContext::default();
        (run.rank, run.world_size) = (rank, world_size);
        let mut keeper = Keeper::default();
        Trainer::new()
            .progress_bar(false)
            .seed(seed)
            .run_context(run)
            .predict(&mut keeper, loader)
            .expect("nothing can fail");
        keeper.0
    }

    #[test]
    fn all_items_come_in_order_or_shuffled_by_the_seed() {
        assert_eq!(epoch(&numbered(5, 2), 1, (0, 1)), [vec![0, 1], vec![2, 3], vec![4]]);
        let shuffled = numbered(50, 50).shuffled();
        let mut order = epoch(&shuffled, 1, (0, 1)).concat();
        assert_eq!(order, epoch(&shuffled, 1, (0, 1)).concat());
        assert_ne!(order, epoch(&shuffled, 2, (0, 1)).concat());
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn processes_share_shuffled_items_in_equal_numbers() {
        let loader = numbered(11, 3).shuffled();
        let parts: Vec<_> = (0..3).map(|rank| epoch(&loader, 7, (rank, 3))).collect();
        let sizes: Vec<Vec<usize>> =
            parts.iter().map(|part| part.iter().map(Vec::len).collect()).collect();
        assert_eq!(sizes, vec![vec![3, 1]; 3]);
        let mut all = parts.concat().concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (0..11).collect::<Vec<_>>());
        let kept = epoch(&numbered(4, 2), 7, (1, 2));
        assert_eq!(kept, [[0, 1], [2, 3]], "evaluations see everything");
    }

    #[test]
    fn tensors_that_do_not_fit_together_are_refused() {
        let ones = |shape: &[i64]| Tensor::ones(shape, FLOAT_CPU);
        for (inputs, targets) in [(ones(&[3, 2]), ones(&[2])), (ones(&[]), ones(&[]))] {
            let error = TensorLoader::new(inputs, targets, 2).expect_err("refused").to_string();
            assert!(error.contains("both need an equal first dimension"), "{error}");
        }
        assert!(TensorLoader::new(ones(&[3]), ones(&[3]), 0).is_err());
        assert!(numbered(0, 2).is_empty());
    }
}
