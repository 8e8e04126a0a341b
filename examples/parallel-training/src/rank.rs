//! One of the processes that train together.

use std::thread;
use std::time::Duration;

use mlprof_core::profile_collective;

use crate::process_group::{ProcessGroup, Result};

/// A process of a group, with optional simulated failures.
#[derive(Debug)]
pub struct Rank {
    group: ProcessGroup,
    /// Number of averagings so far, by which all ranks identify the same collective operation.
    averaged: u64,
    /// The step after which this process exits abruptly.
    lost_after: Option<usize>,
    /// Additional duration of each forward pass.
    slow_by: Duration,
}

impl Rank {
    /// Creates a member of the group. After `lost_after` steps, it exits without a message, which
    /// shows the reaction of the other ranks. Each forward pass takes `slow_by` longer, as on a
    /// slower machine, which shows how the others wait.
    pub fn new(group: ProcessGroup, lost_after: Option<usize>, slow_by: Duration) -> Self {
        Self { group, averaged: 0, lost_after, slow_by }
    }

    /// Replaces the weights with those of rank 0.
    ///
    /// # Errors
    ///
    /// Returns an error if a rank is lost.
    pub fn broadcast(&mut self, weights: &mut [f32]) -> Result<()> {
        self.group.broadcast(weights)
    }

    /// Calls `average` to replace the gradients with the means over all processes, and measures the
    /// call as a collective operation.
    ///
    /// # Errors
    ///
    /// Returns the errors of `average`.
    pub fn average_gradients<T, E>(
        &mut self,
        average: impl FnOnce(&mut ProcessGroup) -> Result<T, E>,
    ) -> Result<T, E> {
        let _scope = profile_collective!("all_reduce_gradients", self.averaged);
        self.averaged += 1;
        average(&mut self.group)
    }

    /// Waits for the additional duration of a forward pass.
    pub fn before_forward(&self) {
        if !self.slow_by.is_zero() {
            thread::sleep(self.slow_by);
        }
    }

    /// Exits this process if it is configured to be lost after this number of steps.
    pub fn after_step(&self, steps: usize) {
        if self.lost_after.is_some_and(|lost_after| steps >= lost_after) {
            std::process::exit(70);
        }
    }

    /// Checks that the weights of all processes are bit-identical.
    ///
    /// # Errors
    ///
    /// Returns an error with the rank that differs or is lost.
    pub fn check_equal(&mut self, weights: &[f32]) -> Result<()> {
        self.group.check_equal(checksum(weights))
    }
}

/// Computes an FNV-1a hash over all bits of the numbers.
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
