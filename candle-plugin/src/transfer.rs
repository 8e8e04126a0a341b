//! Moving batches to a device.

use candle_core::{Device, Result, Tensor};

mlprof_train::move_to! {
    /// Moves everything in a batch to a device: what a module's
    /// [`transfer_batch_to_device`](mlprof_train::TrainModule::transfer_batch_to_device) calls.
    ///
    /// For tensors and for tuples, vectors and options of such; implement it for a batch of
    /// your own by its parts. What is there already is not copied.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use mlprof_candle::MoveTo;
    ///
    /// let batch = (Tensor::zeros((2, 3), DType::F32, &Device::Cpu)?, Tensor::new(&[0u32, 1], &Device::Cpu)?);
    /// let (images, classes) = batch.move_to(&Device::Cpu)?;
    /// # assert_eq!((images.dims(), classes.dims()), (&[2, 3][..], &[2][..]));
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// *What it costs*: the copy. From the host to CUDA or Metal candle waits for it.
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
