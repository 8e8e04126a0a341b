//! NVIDIA's devices: what they did, as their own clock saw it.

#[allow(dead_code, unused_imports, reason = "what collects activity comes later")]
mod cupti;
#[allow(dead_code, reason = "what collects activity comes later")]
mod occupancy;
