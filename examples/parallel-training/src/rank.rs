//! One of the processes that train together.

use std::thread;
use std::time::Duration;

use mlprof_core::profile_collective;

use crate::process_group::{ProcessGroup, Result};

/// A process among those that train together: it knows the others, and what is to go wrong with it.
#[derive(Debug)]
pub struct Rank {
    group: ProcessGroup,
    /// How often gradients were averaged, by which all ranks know one such meeting from the next.
    averaged: u64,
    /// The step after which this process is to end suddenly.
    lost_after: Option<usize>,
    /// How much longer each forward is to take.
    slow_by: Duration,
}

impl Rank {
    /// A member of this group. After `lost_after` steps it ends without a word, to show what the others do then;
    /// each of its forwards takes `slow_by` longer, as on a slower machine, to show who is then waited for.
    pub fn new(group: ProcessGroup, lost_after: Option<usize>, slow_by: Duration) -> Self {
        Self { group, averaged: 0, lost_after, slow_by }
    }

    /// Replaces weights by those of rank 0.
    ///
    /// # Errors
    ///
    /// If a rank is lost.
    pub fn broadcast(&mut self, weights: &mut [f32]) -> Result<()> {
        self.group.broadcast(weights)
    }

    /// Has `average` replace gradients by the means of all processes', which is measured as the collective that
    /// it is.
    ///
    /// # Errors
    ///
    /// Those of `average`.
    pub fn average_gradients<T, E>(
        &mut self,
        average: impl FnOnce(&mut ProcessGroup) -> Result<T, E>,
    ) -> Result<T, E> {
        let _scope = profile_collective!("all_reduce_gradients", self.averaged);
        self.averaged += 1;
        average(&mut self.group)
    }

    /// Takes the time that a forward is to take longer.
    pub fn before_forward(&self) {
        if !self.slow_by.is_zero() {
            thread::sleep(self.slow_by);
        }
    }

    /// Ends this process, if it is to be lost after so many steps.
    pub fn after_step(&self, steps: usize) {
        if self.lost_after.is_some_and(|lost_after| steps >= lost_after) {
            std::process::exit(70);
        }
    }

    /// Makes sure that all processes have the same weights, to the last bit.
    ///
    /// # Errors
    ///
    /// Which rank differs, or is lost.
    pub fn check_equal(&mut self, weights: &[f32]) -> Result<()> {
        self.group.check_equal(checksum(weights))
    }
}

/// FNV-1a over every bit of the numbers.
fn checksum(values: &[f32]) -> u64 {
    values.iter().flat_map(|value| value.to_le_bytes()).fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_sees_every_bit_and_the_order() {
        let all = [1.0, 2.0, -0.0];
        assert_eq!(checksum(&all), checksum(&all));
        assert_ne!(checksum(&all), checksum(&[1.0, 2.0, 0.0]));
        assert_ne!(checksum(&all), checksum(&[2.0, 1.0, -0.0]));
        assert_ne!(checksum(&all), checksum(&[1.0f32.next_up(), 2.0, -0.0]));
    }
}
