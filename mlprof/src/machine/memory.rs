//! Reading, writing and copying of memory.

use std::hint::black_box;

use super::product::Kernel;

/// Largest part of a working set that is moved at once.
const CHUNK: usize = 256 << 10;
/// Least number of bytes per step, so that reading the clock does not count.
const LEAST: usize = 512 << 10;

/// Numbers that are moved in one step of a loop.
const LANES: usize = 64;

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
                fill(black_box(&mut self.set[range]), self.kernel);
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

/// Runs a function as compiled for the instruction set of the kernel.
macro_rules! dispatch {
    ($name:ident, $avx512:ident, $avx2:ident, $plain:ident, $numbers:ty $(, $result:ty)?) => {
        fn $name(numbers: $numbers, kernel: Kernel) $(-> $result)? {
            match kernel {
                // SAFETY: `detect` returns this kernel only for a processor with this feature.
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx512 => unsafe { $avx512(numbers) },
                // SAFETY: `detect` returns this kernel only for a processor with this feature.
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2 => unsafe { $avx2(numbers) },
                Kernel::Baseline => $plain(numbers),
            }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        fn $avx512(numbers: $numbers) $(-> $result)? {
            $plain(numbers)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        fn $avx2(numbers: $numbers) $(-> $result)? {
            $plain(numbers)
        }
    };
}

dispatch!(sum, sum_avx512, sum_avx2, sum_lanes, &[u64], u64);
dispatch!(fill, fill_avx512, fill_avx2, fill_plain, &mut [u64]);

/// Sums in independent lanes, so that no addition waits for the previous one.
#[inline(always)]
fn sum_lanes(numbers: &[u64]) -> u64 {
    let mut lanes = [0_u64; LANES];
    for numbers in numbers.as_chunks::<LANES>().0 {
        lanes = std::array::from_fn(|lane| lanes[lane].wrapping_add(numbers[lane]));
    }
    lanes.into_iter().fold(0, u64::wrapping_add)
}

#[inline(always)]
fn fill_plain(numbers: &mut [u64]) {
    let value = black_box(1);
    for numbers in numbers.as_chunks_mut::<LANES>().0 {
        *numbers = [value; LANES];
    }
}
