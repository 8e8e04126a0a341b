//! Which devices are CubeCL's.

#[cfg(feature = "cubecl")]
use burn::backend::{Backend, Dispatch};
use burn::backend::{Device as BackendDevice, DispatchDeviceId};
use burn::tensor::Device;

/// Whether a device is one of CubeCL's; the upper byte of an id says who a device belongs to.
pub(crate) fn is_cube(device: &Device) -> bool {
    device.as_dispatch().to_id().type_id >> 8 == u16::from(DispatchDeviceId::Cube)
}

/// Whether burn fuses the ops of a CubeCL device: its feature `fusion` is on.
#[cfg(feature = "cubecl")]
pub(crate) fn is_fused(device: &Device) -> bool {
    Dispatch::name(device.as_dispatch()).contains("fusion<")
}
