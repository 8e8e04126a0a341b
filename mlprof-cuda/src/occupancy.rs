//! Estimated occupancy of kernels.
//!
//! The estimate follows NVIDIA's occupancy calculator. The number of blocks that run concurrently
//! on a multiprocessor is limited by blocks, warps, registers and shared memory.

use super::properties::DeviceProperties;
use mlprof_core::hook::{DeviceDescription, KernelLaunch};

/// Allocation unit of registers per warp.
const REGISTER_UNIT: u64 = 256;

/// Returns the launch configuration of a kernel with its estimated occupancy. `shared_memory` is
/// the static and dynamic shared memory of a block in bytes. The estimates are `None` if the device
/// is unknown, the driver is too old to report the maximum number of blocks, or the limits are
/// invalid.
///
/// The occupancy corresponds to Kineto's `est. achieved occupancy %`. It counts at most as many
/// blocks as the grid has per multiprocessor.
///
/// It is also `None` for a block that exceeds the limits although the kernel ran. Kineto reports 0
/// for such kernels, including all kernels with more than 48 KiB of dynamic shared memory, which
/// are estimated normally here.
pub(crate) fn launch(
    device: Option<&DeviceProperties>,
    grid: [u32; 3],
    block: [u32; 3],
    registers_per_thread: u32,
    shared_memory: u32,
) -> KernelLaunch {
    let plain =
        KernelLaunch { grid, block, registers_per_thread, shared_memory, ..Default::default() };
    let Some(device) = device.filter(|device| device.has_limits()) else { return plain };
    let limits = &device.description;
    let (blocks, threads) = (product(grid), product(block));
    let multiprocessors = u64::from(limits.multiprocessors);
    // A partial warp counts as a fraction of a warp, as in Kineto.
    let (all_threads, warps) =
        (blocks.saturating_mul(threads), multiprocessors * u64::from(limits.warp_size));
    KernelLaunch {
        occupancy: occupancy(device, blocks, threads, registers_per_thread, shared_memory),
        blocks_per_multiprocessor: Some(thousandths(blocks, multiprocessors)),
        warps_per_multiprocessor: Some(thousandths(all_threads, warps)),
        ..plain
    }
}

impl DeviceProperties {
    /// Returns `true` if the device's limits are known and no divisor is zero.
    fn has_limits(&self) -> bool {
        let DeviceDescription { warp_size, threads_per_multiprocessor, multiprocessors, .. } =
            self.description;
        let all = [
            warp_size,
            threads_per_multiprocessor,
            multiprocessors,
            self.blocks_per_multiprocessor,
        ];
        !all.contains(&0)
    }

    /// Returns the number of register file partitions. All registers of a warp are in one
    /// partition.
    fn partitions(&self) -> u64 {
        if self.description.compute_capability == (6, 0) { 2 } else { 4 }
    }

    /// Returns the allocation unit of shared memory in bytes.
    fn shared_memory_unit(&self) -> u64 {
        if self.description.compute_capability.0 >= 8 { 128 } else { 256 }
    }

    /// Returns the number of blocks of this size that can run concurrently on one multiprocessor.
    fn resident_blocks(&self, threads: u64, registers_per_thread: u32, shared_memory: u32) -> u64 {
        let limits = &self.description;
        let warps = threads.div_ceil(limits.warp_size.into()).max(1);
        let most_warps = u64::from(limits.threads_per_multiprocessor / limits.warp_size);
        let registers = (u64::from(registers_per_thread) * u64::from(limits.warp_size))
            .next_multiple_of(REGISTER_UNIT);
        let per_partition = u64::from(limits.registers_per_multiprocessor) / self.partitions();
        let by_registers = match registers {
            0 => u64::MAX,
            registers => per_partition / registers * self.partitions() / warps,
        };
        let shared_memory =
            u64::from(shared_memory) + u64::from(self.reserved_shared_memory_per_block);
        let by_shared_memory = match shared_memory.next_multiple_of(self.shared_memory_unit()) {
            0 => u64::MAX,
            bytes => limits.shared_memory_per_multiprocessor / bytes,
        };
        u64::from(self.blocks_per_multiprocessor)
            .min(most_warps / warps)
            .min(by_registers)
            .min(by_shared_memory)
    }
}

fn occupancy(
    device: &DeviceProperties,
    blocks: u64,
    threads: u64,
    registers_per_thread: u32,
    shared_memory: u32,
) -> Option<u8> {
    let resident = device.resident_blocks(threads, registers_per_thread, shared_memory);
    if resident == 0 {
        return None;
    }
    let blocks =
        (blocks as f64 / f64::from(device.description.multiprocessors)).min(resident as f64);
    let part = blocks * threads as f64 / f64::from(device.description.threads_per_multiprocessor);
    Some((part * 100.0).round().min(100.0) as u8)
}

fn product(directions: [u32; 3]) -> u64 {
    directions.into_iter().map(u64::from).fold(1, u64::saturating_mul)
}

/// Returns the rounded quotient in thousandths. It saturates at the maximum.
fn thousandths(number: u64, divisor: u64) -> u32 {
    let quotient = (u128::from(number) * 1000 + u128::from(divisor / 2)) / u128::from(divisor);
    quotient.try_into().unwrap_or(u32::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn device(
        compute_capability: (u32, u32),
        multiprocessors: u32,
        shared_memory_per_multiprocessor: u64,
        reserved_shared_memory_per_block: u32,
    ) -> DeviceProperties {
        DeviceProperties {
            description: DeviceDescription {
                compute_capability,
                multiprocessors,
                warp_size: 32,
                threads_per_multiprocessor: 2048,
                registers_per_multiprocessor: 65_536,
                shared_memory_per_multiprocessor,
                ..DeviceDescription::default()
            },
            blocks_per_multiprocessor: 32,
            reserved_shared_memory_per_block,
        }
    }

    /// Returns the limits of a V100.
    fn volta() -> DeviceProperties {
        device((7, 0), 80, 96 << 10, 0)
    }

    /// Returns the limits of an A100.
    fn ampere() -> DeviceProperties {
        device((8, 0), 108, 164 << 10, 1 << 10)
    }

    /// Returns the limits of an H100.
    fn hopper() -> DeviceProperties {
        device((9, 0), 132, 228 << 10, 1 << 10)
    }

    /// Returns the occupancy in percent of a grid that fills the device.
    fn full(
        device: &DeviceProperties,
        threads: u32,
        registers: u32,
        shared_memory: u32,
    ) -> Option<u8> {
        launch(Some(device), [1 << 20, 1, 1], [threads, 1, 1], registers, shared_memory).occupancy
    }

    #[test]
    fn warps_and_blocks_limit_small_kernels() {
        for limits in [volta(), ampere(), hopper()] {
            // 64 warps are two blocks of 32 warps, or eight blocks of 8.
            assert_eq!(full(&limits, 1024, 32, 0), Some(100));
            assert_eq!(full(&limits, 256, 32, 0), Some(100));
            // 32 blocks of one warp are 32 of 64 warps.
            assert_eq!(full(&limits, 32, 16, 0), Some(50));
            // 768 threads are 24 warps. Two such blocks fit into 64 warps, so 1,536 of 2,048
            // threads run.
            assert_eq!(full(&limits, 768, 16, 0), Some(75));
            // 33 threads need two warps. 32 blocks are 1,056 of 2,048 threads.
            assert_eq!(full(&limits, 33, 16, 0), Some(52));
        }
    }

    #[test]
    fn registers_limit_by_warps_of_a_partition() {
        for limits in [volta(), ampere(), hopper()] {
            // A warp needs 64 × 32 = 2,048 registers. Each of 4 partitions has room for 16,384 /
            // 2,048 = 8 warps, so 32 of 64 run.
            assert_eq!(full(&limits, 256, 64, 0), Some(50));
            // 255 × 32 = 8,160 is rounded up to 8,192. There is room for 2 × 4 = 8 warps, which are
            // one block of 8.
            assert_eq!(full(&limits, 256, 255, 0), Some(13));
            // 33 × 32 = 1,056 is rounded up to 1,280. There is room for 12 × 4 = 48 warps, which
            // are 6 blocks of 8.
            assert_eq!(full(&limits, 256, 33, 0), Some(75));
            // 72 × 32 = 2,304 leaves room for 7 × 4 = 28 warps. Three blocks of 8 are 24 of 64
            // warps.
            assert_eq!(full(&limits, 256, 72, 0), Some(38));
            // 128 × 32 = 4,096 leaves room for 16 warps, fewer than the 32 of one block.
            assert_eq!(full(&limits, 1024, 128, 0), None);
        }
        // With 2 partitions, 40 × 32 = 1,280 leaves room for 25 × 2 = 50 warps.
        let pascal = device((6, 0), 80, 96 << 10, 0);
        assert_eq!(full(&pascal, 64, 40, 0), Some(78));
        assert_eq!(full(&volta(), 64, 40, 0), Some(75));
    }

    #[test]
    fn shared_memory_limits_in_units_and_with_what_the_driver_takes() {
        // 48 of 96 KiB leave room for 2 blocks of 256 threads.
        assert_eq!(full(&volta(), 256, 32, 48 << 10), Some(25));
        // One more byte allocates 256 more, which leaves room for 1 block.
        assert_eq!(full(&volta(), 256, 32, (48 << 10) + 1), Some(13));
        // 48 + 1 of 164 KiB leave room for 3 blocks, and 40 + 1 KiB for 4. With 128 bytes more, it
        // is 3 again.
        assert_eq!(full(&ampere(), 256, 32, 48 << 10), Some(38));
        assert_eq!(full(&ampere(), 256, 32, 40 << 10), Some(50));
        assert_eq!(full(&ampere(), 256, 32, (40 << 10) + 1), Some(38));
        // 48 + 1 of 228 KiB leave room for 4 blocks, 227 + 1 KiB for one, and 56 + 1 KiB for 4.
        assert_eq!(full(&hopper(), 256, 32, 48 << 10), Some(50));
        assert_eq!(full(&hopper(), 256, 32, 227 << 10), Some(13));
        assert_eq!(full(&hopper(), 256, 32, 56 << 10), Some(50));
        assert_eq!(full(&hopper(), 256, 32, 228 << 10), None);
        // Each block uses the driver's 1 KiB even without shared memory of its own. This does not
        // limit small blocks.
        assert_eq!(full(&ampere(), 64, 16, 0), Some(100));
    }

    #[test]
    fn blocks_and_warps_are_per_multiprocessor() {
        let small = launch(Some(&hopper()), [33, 2, 1], [16, 16, 1], 32, 100);
        assert_eq!(small.blocks_per_multiprocessor, Some(500));
        assert_eq!(small.warps_per_multiprocessor, Some(4000));
        // Half a block of 256 threads runs on 2,048 threads.
        assert_eq!(small.occupancy, Some(6));
        assert_eq!((small.grid, small.block), ([33, 2, 1], [16, 16, 1]));
        assert_eq!((small.registers_per_thread, small.shared_memory), (32, 100));
        // 33 threads are 1 1/32 warps.
        let odd = launch(Some(&volta()), [100, 1, 1], [33, 1, 1], 32, 0);
        assert_eq!(odd.blocks_per_multiprocessor, Some(1250));
        assert_eq!(odd.warps_per_multiprocessor, Some(1289));
        let many = launch(Some(&volta()), [u32::MAX; 3], [1024, 1, 1], 32, 0);
        assert_eq!(many.blocks_per_multiprocessor, Some(u32::MAX));
        assert_eq!(many.occupancy, Some(100));
    }

    #[test]
    fn without_limits_only_the_launch_is_known() {
        let nothing = device((7, 0), 0, 96 << 10, 0);
        let old = DeviceProperties { blocks_per_multiprocessor: 0, ..volta() };
        for limits in [None, Some(&nothing), Some(&old)] {
            let launch = launch(limits, [1, 2, 3], [4, 5, 6], 7, 8);
            let expected = KernelLaunch {
                grid: [1, 2, 3],
                block: [4, 5, 6],
                registers_per_thread: 7,
                shared_memory: 8,
                occupancy: None,
                blocks_per_multiprocessor: None,
                warps_per_multiprocessor: None,
            };
            assert_eq!(launch, expected);
        }
    }

    proptest! {
        #[test]
        fn no_numbers_do_harm(
            numbers in prop::array::uniform32(prop_oneof![any::<u32>(), 0..70_u32]),
        ) {
            let [warp_size, threads, blocks, registers, shared, reserved, multiprocessors, major,
                minor, x, y, z, u, v, w, registers_per_thread, shared_memory, ..] = numbers;
            let limits = DeviceProperties {
                description: DeviceDescription {
                    warp_size,
                    threads_per_multiprocessor: threads,
                    registers_per_multiprocessor: registers,
                    shared_memory_per_multiprocessor: shared.into(),
                    multiprocessors,
                    compute_capability: (major, minor),
                    ..DeviceDescription::default()
                },
                blocks_per_multiprocessor: blocks,
                reserved_shared_memory_per_block: reserved,
            };
            let launch =
                launch(Some(&limits), [x, y, z], [u, v, w], registers_per_thread, shared_memory);
            prop_assert!(launch.occupancy.is_none_or(|percent| percent <= 100));
        }
    }
}
