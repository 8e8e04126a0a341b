//! Moves batches to devices and waits for devices.

use tch::{Cuda, Device, TchError, Tensor};

/// Waits until a CUDA device has completed all queued work. On other devices it returns
/// immediately, because their work is synchronous or tch cannot wait for it.
///
/// CUDA operations are queued, and a scope around them measures the time to queue them. With this
/// call at its end, a scope measures execution time. Waiting slows the training down, because
/// device and host no longer work concurrently, and the wait is part of the measurement. This crate
/// therefore does not wait by default.
///
/// # Panics
///
/// Panics like [`Cuda::synchronize`] if earlier work on the device failed.
pub fn synchronize(device: Device) {
    if let Device::Cuda(index) = device {
        Cuda::synchronize(index as i64);
    }
}

mlprof_train::move_to! {
    /// A batch that can be moved to a device. It is implemented for tensors, and for tuples,
    /// vectors and options of them.
    ///
    /// [`TrainModule::transfer_batch_to_device`][transfer] usually calls it:
    ///
    /// [transfer]: mlprof_train::TrainModule::transfer_batch_to_device
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
    /// *Cost*: the copy. A tensor that is already on the device is not copied.
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
