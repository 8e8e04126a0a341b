//! torch's tensors in checkpoints.

use mlprof_train::{Dtype, Result, SavedState, SavedTensor};
use tch::{Device, Kind, Tensor};

fn dtype(kind: Kind) -> Result<Dtype> {
    Ok(match kind {
        Kind::Uint8 => Dtype::U8,
        Kind::Int8 => Dtype::I8,
        Kind::Int16 => Dtype::I16,
        Kind::Int => Dtype::I32,
        Kind::Int64 => Dtype::I64,
        Kind::Half => Dtype::F16,
        Kind::BFloat16 => Dtype::BF16,
        Kind::Float => Dtype::F32,
        Kind::Double => Dtype::F64,
        Kind::Bool => Dtype::BOOL,
        _ => return Err(format!("tensors of the type {kind:?} cannot be saved").into()),
    })
}

fn shape(tensor: &Tensor) -> Result<Vec<usize>> {
    Ok(tensor.size().into_iter().map(usize::try_from).collect::<Result<_, _>>()?)
}

/// Returns the numbers of a tensor.
pub(super) fn saved(tensor: &Tensor) -> Result<SavedTensor> {
    let dtype = dtype(tensor.f_kind()?)?;
    let on_host = tensor.f_detach()?.f_to_device(Device::Cpu)?.f_contiguous()?;
    let mut bytes = vec![0; on_host.numel() * dtype.bitsize() / 8];
    on_host.f_copy_data_u8(&mut bytes, on_host.numel())?;
    SavedTensor::new(dtype, shape(tensor)?, bytes)
}

/// Returns the tensor `name` on the device of `like`, after checking that type and shape match.
pub(super) fn restored(state: &SavedState, name: &str, like: &Tensor) -> Result<Tensor> {
    let kind = like.f_kind()?;
    let saved = state.tensor_like(name, dtype(kind)?, &shape(like)?)?;
    let tensor = Tensor::f_from_data_size(saved.bytes(), &like.size(), kind)?;
    Ok(tensor.f_to_device(like.device())?)
}
