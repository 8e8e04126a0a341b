//! Devices: moving batches there, and waiting for them.

use tch::{Cuda, Device, TchError, Tensor};

/// Waits until a CUDA device has done all work that was queued on it; on other devices there is
/// nothing to wait for, or tch has no way to.
///
/// Operations on CUDA are queued, and measured as the time it takes to queue them. With this at the
/// end of a scope they are measured as the time they take, but device and host then no longer work
/// at the same time: training becomes slower, and waiting is part of what is measured. So nothing in
/// this crate waits unless it is asked to.
///
/// # Panics
///
/// As [`Cuda::synchronize`], where the device failed at earlier work.
pub fn synchronize(device: Device) {
    if let Device::Cuda(index) = device {
        Cuda::synchronize(index as i64);
    }
}

mlprof_train::move_to! {
    /// A batch that can be moved to a device: tensors, and tuples, vectors and
    /// options of such.
    ///
    /// What
    /// [`TrainModule::transfer_batch_to_device`](mlprof_train::TrainModule::transfer_batch_to_device)
    /// usually does:
    ///
    /// ```
    /// use tch::{Device, Kind, Tensor};
    /// use mlprof_tch::MoveTo;
    ///
    /// let batch = (Tensor::zeros([4, 2], (Kind::Float, Device::Cpu)), vec![Tensor::from(1.0)]);
    /// let (images, others) = batch.move_to(Device::cuda_if_available())?;
    /// assert_eq!(images.size(), [4, 2]);
    /// assert_eq!(others.len(), 1);
    /// # Ok::<(), tch::TchError>(())
    /// ```
    ///
    /// *Cost*: nothing is copied where a tensor is on the device already.
    MoveTo: Device, TchError;
}

impl MoveTo for Tensor {
    fn move_to(self, device: Device) -> Result<Self, TchError> {
        crate::ops::install();
        let moved = self.f_to_device(device)?;
        crate::ops::label_input(&moved);
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Kind;

    #[test]
    fn nothing_is_copied_that_is_there_already() {
        let tensor = Tensor::ones([3], (Kind::Float, Device::Cpu));
        let address = tensor.data_ptr();
        let batch = (tensor, vec![Some(Tensor::from(2.0)), None], Tensor::from(3_i64));
        let (moved, others, number) = batch.move_to(Device::Cpu).expect("the CPU is always there");
        assert_eq!(moved.data_ptr(), address);
        assert_eq!(others.len(), 2);
        assert_eq!(number.int64_value(&[]), 3);
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        let absent = Device::Cuda(63);
        let tensor = || Tensor::ones([1], (Kind::Float, Device::Cpu));
        assert!(tensor().move_to(absent).is_err());
        assert!((tensor(), tensor()).move_to(absent).is_err());
        assert!(vec![tensor()].move_to(absent).is_err());
    }

    #[test]
    fn there_is_nothing_to_wait_for_on_a_cpu() {
        synchronize(Device::Cpu);
    }
}
