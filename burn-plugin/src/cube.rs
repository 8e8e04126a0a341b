//! Detection of CubeCL devices.

#[cfg(feature = "cubecl")]
use burn::backend::{Backend, Dispatch};
use burn::backend::{Device as BackendDevice, DispatchDeviceId};
use burn::tensor::Device;

/// Returns `true` if `device` is a CubeCL device. The upper byte of a device's type id identifies
/// its backend.
pub(crate) fn is_cube(device: &Device) -> bool {
    device.as_dispatch().to_id().type_id >> 8 == u16::from(DispatchDeviceId::Cube)
}

/// Returns `true` if burn fuses the ops of a CubeCL device, which requires its feature `fusion`.
#[cfg(feature = "cubecl")]
pub(crate) fn is_fused(device: &Device) -> bool {
    Dispatch::name(device.as_dispatch()).contains("fusion<")
}
