//! NVIDIA's devices: what they did, as their own clock saw it.
pub(crate) fn install() {}
