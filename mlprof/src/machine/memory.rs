//! Reading, writing and copying of memory.

use std::hint::black_box;

use super::product::Kernel;

/// Largest part of a working set that is moved at once.
const CHUNK: usize = 256 << 10;
/// Least number of bytes per step, so that reading the clock does not count.
const LEAST: usize = 512 << 10;

/// Kind of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    Read,
    Write,
    Copy,
}

impl Transfer {
    pub(super) const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Copy];
}

/// Position in a working set.
pub(super) struct Walk<'memory> {
    set: &'memory mut [u64],
    place: usize,
    transfer: Transfer,
    kernel: Kernel,
}

impl<'memory> Walk<'memory> {
    pub(super) fn new(set: &'memory mut [u64], transfer: Transfer, kernel: Kernel) -> Self {
        Self { set, place: 0, transfer, kernel }
    }

    /// Moves the next part of the working set and returns the bytes that were read and written.
    pub(super) fn step(&mut self) -> u64 {
        let mut moved = 0;
        while moved < LEAST {
            moved += self.chunk();
        }
        moved as u64
    }

    fn chunk(&mut self) -> usize {
        let half = self.set.len() / 2;
        let room = if self.transfer == Transfer::Copy { half } else { self.set.len() };
        let length = (CHUNK / 8).min(room);
        if self.place + length > room {
            self.place = 0;
        }
        let range = self.place..self.place + length;
        self.place += length;
        match self.transfer {
            Transfer::Read => {
                black_box(sum(black_box(&self.set[range]), self.kernel));
                8 * length
            }
            Transfer::Write => {
                black_box(&mut self.set[range]).fill(black_box(1));
                8 * length
            }
            Transfer::Copy => {
                let (from, to) = self.set.split_at_mut(half);
                black_box(&mut to[range.clone()]).copy_from_slice(black_box(&from[range]));
                2 * 8 * length
            }
        }
    }
}

fn sum(numbers: &[u64], kernel: Kernel) -> u64 {
    match kernel {
        // SAFETY: `detect` returns this kernel only for a processor with this feature.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => unsafe { sum_avx512(numbers) },
        // SAFETY: `detect` returns this kernel only for a processor with this feature.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => unsafe { sum_avx2(numbers) },
        Kernel::Baseline => sum_lanes(numbers),
    }
}

/// Sums in independent lanes, so that no addition waits for the previous one.
#[inline(always)]
fn sum_lanes(numbers: &[u64]) -> u64 {
    let mut lanes = [0_u64; 64];
    for numbers in numbers.chunks_exact(64) {
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane = lane.wrapping_add(*number);
        }
    }
    lanes.into_iter().fold(0, u64::wrapping_add)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512(numbers: &[u64]) -> u64 {
    sum_lanes(numbers)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(numbers: &[u64]) -> u64 {
    sum_lanes(numbers)
}
