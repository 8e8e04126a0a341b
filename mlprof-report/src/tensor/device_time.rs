//! Device time of a set of rows.

use super::KeyAverage;

/// Returns the device time of a set of rows in seconds. Each kernel counts once. The row of an op
/// repeats the time of its kernels, so op rows count only in a set without kernel rows.
pub(crate) fn device_seconds<'rows, R>(rows: R) -> f64
where
    R: IntoIterator<Item = &'rows KeyAverage>,
{
    let (mut on_device, mut by_ops) = (None, 0.0);
    for row in rows {
        match row.is_on_device {
            true => *on_device.get_or_insert(0.0) += row.self_device_seconds,
            false => by_ops += row.self_device_seconds,
        }
    }
    on_device.unwrap_or(by_ops)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::findings::samples::{kernel, op, recorded};

    /// Builds rows in which `aten::mm` launches `gemm`, so that both rows contain the kernel's
    /// time.
    fn rows() -> Vec<KeyAverage> {
        let launching = KeyAverage {
            device_seconds: 1.0,
            self_device_seconds: 1.0,
            ..op("aten::mm", 100, 0.1)
        };
        vec![launching, kernel("gemm", 100, 1.0), kernel("not launched by an op", 1, 0.25)]
    }

    #[test]
    fn the_time_of_a_kernel_counts_once() {
        let rows = rows();
        assert_eq!(device_seconds(&rows), 1.25);
        assert_eq!(device_seconds(&rows[..1]), 1.0, "of ops alone, which have it from kernels");
        assert_eq!(device_seconds(&[]), 0.0);
        let total = recorded(rows).key_averages.total_average();
        assert_eq!((total.self_device_seconds, total.self_cpu_seconds), (1.25, 0.1));
    }
}
