//! Moves batches to a device.

use candle_core::{Device, Result, Tensor};

mlprof_train::move_to! {
    /// A batch that can be moved to a device. A module's
    /// [`transfer_batch_to_device`](mlprof_train::TrainModule::transfer_batch_to_device) usually
    /// calls it.
    ///
    /// It is implemented for tensors and for tuples, vectors and options of them. Implement it for
    /// your own batch type by moving its parts. A tensor that is already on the device is not
    /// copied.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use mlprof_candle::MoveTo;
    ///
    /// let images = Tensor::zeros((2, 3), DType::F32, &Device::Cpu)?;
/// let batch = (images, Tensor::new(&[0u32, 1], &Device::Cpu)?);
    /// let (images, classes) = batch.move_to(&Device::Cpu)?;
    /// # assert_eq!((images.dims(), classes.dims()), (&[2, 3][..], &[2][..]));
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// *Cost*: the copy. candle waits for copies from the host to CUDA or Metal.
    MoveTo: &Device, candle_core::Error;
}

impl MoveTo for Tensor {
    fn move_to(self, device: &Device) -> Result<Self> {
        self.to_device(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_batch_arrive() -> Result<()> {
        let tensor = |value: u32| Tensor::new(value, &Device::Cpu);
        let batch = (vec![tensor(1)?, tensor(2)?], Some(tensor(3)?), tensor(4)?);
        let (list, option, last) = batch.move_to(&Device::Cpu)?;
        let tensors = list.into_iter().chain(option).chain([last]);
        let values = tensors.map(|tensor| tensor.to_scalar()).collect::<Result<Vec<u32>>>()?;
        assert_eq!(values, [1, 2, 3, 4]);
        Ok(())
    }
}
