//! The framework in reports: candle, its features and devices.

use candle_core::{Device, DeviceLocation, utils};
use mlprof_core::hook::{Framework, declare_device, declare_evaluated_outputs, declare_framework};

use crate::evaluation;

const NAME: &str = "candle";

/// candle versions that this crate supports.
const VERSION: &str = "0.11";

/// Declares for reports that the program trains with candle, which has no op hooks. May be called
/// many times.
pub(crate) fn declare() {
    declare_framework(read);
    declare_evaluated_outputs(NAME, &evaluation::OUTPUTS);
    mlprof_core::hook::announce_without_ops(NAME);
}

/// Declares for reports that candle trains on this device.
pub(crate) fn trains_on(device: &Device) {
    declare_device(NAME, &device_name(device));
    #[cfg(feature = "cuda")]
    if device.is_cuda() {
        mlprof_cuda::measure_actions_on(mlprof_cuda::Stream::per_thread());
    }
}

/// Returns the device's name in the style of PyTorch.
fn device_name(device: &Device) -> String {
    match device.location() {
        DeviceLocation::Cpu => "cpu".to_owned(),
        DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
        DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
    }
}

fn read() -> Framework {
    let known = [
        (utils::has_mkl(), "mkl"),
        (utils::has_accelerate(), "accelerate"),
        (utils::cuda_is_available(), "cuda"),
        (utils::metal_is_available(), "metal"),
        (utils::with_avx(), "avx2"),
        (utils::with_neon(), "neon"),
        (utils::with_f16c(), "f16c"),
    ];
    let features = known.into_iter().filter(|(is_there, _)| *is_there);
    Framework {
        name: NAME.to_owned(),
        version: Some(VERSION.to_owned()),
        library: None,
        features: features.map(|(_, feature)| feature.to_owned()).collect(),
        threads: Some(utils::get_num_threads() as u64),
        ..Framework::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_asked_for() {
        let manifest = include_str!("../../Cargo.toml");
        let line = format!("\ncandle-core = {{ version = \"{VERSION}\"");
        assert!(manifest.contains(&line), "{VERSION}");
    }

    #[test]
    fn it_says_what_candle_can_do_here() {
        let candle = read();
        assert_eq!(candle.has("mkl"), utils::has_mkl());
        assert!(candle.threads.is_some_and(|threads| threads > 0), "{candle:?}");
        #[cfg(target_arch = "x86_64")]
        assert_eq!(candle.has("avx2"), std::is_x86_feature_detected!("avx2"), "{candle:?}");
        assert_eq!(device_name(&Device::Cpu), "cpu");
    }
}
