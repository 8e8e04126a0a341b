//! The batches of an epoch.

use std::sync::Arc;

use mlprof_train::{DataLoader, EpochContext, Result};

use crate::data::Digit;
use crate::random::SplitMix;

/// The epoch and the process, which together determine the order of the digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochShare {
    /// Seed of the order. The same seed gives the same order in the same epoch.
    pub seed: u64,
    /// Epoch, counted from 0. Each epoch has a different order.
    pub epoch: usize,
    /// Rank of this process.
    pub rank: u32,
    /// Number of processes that share the digits.
    pub world_size: u32,
}

impl EpochShare {
    /// Creates the share of a program with one process.
    pub const fn alone(seed: u64, epoch: usize) -> Self {
        Self { seed, epoch, rank: 0, world_size: 1 }
    }
}

impl From<&EpochContext> for EpochShare {
    fn from(context: &EpochContext) -> Self {
        let EpochContext { seed, epoch, rank, world_size, .. } = *context;
        Self { seed, epoch, rank, world_size }
    }
}

/// An iterator over the batches of an epoch with a known length. The last batch may be smaller.
#[derive(Debug, Clone)]
pub struct Batches {
    digits: Arc<[Digit]>,
    order: Vec<usize>,
    batch_size: usize,
    position: usize,
}

impl Batches {
    /// Returns all digits in their order. A batch has at least one digit, even if `batch_size`
    /// is 0.
    pub fn in_order(digits: Arc<[Digit]>, batch_size: usize) -> Self {
        let order = (0..digits.len()).collect();
        Self { digits, order, batch_size: batch_size.max(1), position: 0 }
    }

    /// Returns one process's share of the digits, in an order that differs from epoch to epoch.
    ///
    /// Every process gets the same number of batches of the same sizes. Otherwise, processes that
    /// average gradients would wait for each other forever. If the digits do not divide evenly, a
    /// few of them are used by two processes.
    pub fn shuffled(digits: Arc<[Digit]>, batch_size: usize, share: EpochShare) -> Self {
        let mut order: Vec<usize> = (0..digits.len()).collect();
        // The seed passes through the generator first. Otherwise, seed 1 in epoch 2 would equal
        // seed 2 in epoch 1.
        let of_seed = SplitMix::new(share.seed).next_u64();
        SplitMix::new(of_seed.wrapping_add(share.epoch as u64)).shuffle(&mut order);
        let world_size = share.world_size.max(1) as usize;
        let own = order.len().div_ceil(world_size);
        let first = share.rank as usize % world_size;
        let order = order.iter().copied().cycle().skip(first).step_by(world_size).take(own);
        Self { order: order.collect(), digits, batch_size: batch_size.max(1), position: 0 }
    }
}

impl Iterator for Batches {
    type Item = Vec<Digit>;

    fn next(&mut self) -> Option<Vec<Digit>> {
        let rest = self.order.get(self.position..)?;
        let chosen = &rest[..rest.len().min(self.batch_size)];
        self.position += chosen.len();
        let digits = chosen.iter().map(|&index| self.digits[index].clone());
        (!chosen.is_empty()).then(|| digits.collect())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.order.len() - self.position).div_ceil(self.batch_size);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Batches {}

/// The order in which a loader returns its digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The original order with all digits in every process, for evaluation.
    Kept,
    /// [Shuffled in each epoch](Batches::shuffled) by the trainer's seed, for training.
    Shuffled,
}

/// Returns a loader for the trainer. `to_batch` converts digits to the framework's batch type.
pub fn loader<Batch: 'static>(
    digits: Vec<Digit>,
    batch_size: usize,
    order: Order,
    to_batch: impl Fn(&[Digit]) -> Result<Batch> + Clone + 'static,
) -> impl DataLoader<Batch> {
    let digits: Arc<[Digit]> = digits.into();
    move |context: &EpochContext| {
        let batches = match order {
            Order::Kept => Batches::in_order(digits.clone(), batch_size),
            Order::Shuffled => Batches::shuffled(digits.clone(), batch_size, context.into()),
        };
        let to_batch = to_batch.clone();
        batches.map(move |digits| to_batch(&digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Returns digits with distinct first pixels.
    fn numbered(count: usize) -> Arc<[Digit]> {
        (0..count)
            .map(|number| {
                let mut pixels = [0.0; 64];
                pixels[0] = number as f32;
                Digit { pixels, class: 0 }
            })
            .collect()
    }

    fn numbers(batches: Batches) -> Vec<Vec<usize>> {
        let number = |digit: &Digit| digit.pixels[0] as usize;
        batches.map(|batch| batch.iter().map(number).collect()).collect()
    }

    #[test]
    fn batches_are_counted_before_they_are_made() {
        let mut batches = Batches::in_order(numbered(7), 3);
        assert_eq!(batches.len(), 3);
        batches.next();
        assert_eq!(batches.len(), 2);
        assert_eq!(numbers(batches), [vec![3, 4, 5], vec![6]]);
        assert_eq!(Batches::in_order(numbered(0), 3).len(), 0);
        assert_eq!(numbers(Batches::in_order(numbered(2), 0)), [[0], [1]]);
    }

    #[test]
    fn every_epoch_has_an_order_of_its_own_that_a_seed_repeats() {
        let order = |seed, epoch| {
            numbers(Batches::shuffled(numbered(50), 50, EpochShare::alone(seed, epoch)))
        };
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
        assert_ne!(order(1, 1), order(2, 0));
        let mut all = order(1, 0).concat();
        all.sort_unstable();
        assert_eq!(all, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn processes_share_the_digits_in_equal_numbers_of_batches() {
        for (count, world_size) in [(10, 2), (11, 2), (11, 3), (2, 5)] {
            let parts: Vec<_> = (0..world_size)
                .map(|rank| {
                    let share = EpochShare { seed: 3, epoch: 1, rank, world_size };
                    numbers(Batches::shuffled(numbered(count), 3, share))
                })
                .collect();
            let sizes = |part: &Vec<Vec<usize>>| part.iter().map(Vec::len).collect::<Vec<_>>();
            assert!(parts.iter().all(|part| sizes(part) == sizes(&parts[0])), "{parts:?}");
            let mut given = BTreeMap::<usize, usize>::new();
            for number in parts.concat().concat() {
                *given.entry(number).or_default() += 1;
            }
            assert_eq!(given.len(), count, "each digit is given to someone");
            let twice = given.values().filter(|&&times| times > 1).count();
            assert!(twice < world_size as usize, "{given:?}");
        }
    }
}
