//! NVIDIA's devices: what they did, as their own clock saw it.

#[allow(dead_code, reason = "what collects the records comes later")]
mod cupti;
