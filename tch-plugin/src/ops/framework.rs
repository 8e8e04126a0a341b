//! The framework in reports: libtorch, its features and devices.

use mlprof_core::hook::{Framework, declare_device, declare_framework};
use tch::{Device, utils};

use super::ffi;

const NAME: &str = "tch";

/// Declares for reports that the program trains with tch. May be called many times.
pub(super) fn declare() {
    declare_framework(read);
}

/// Declares for reports that tch trains on this device.
pub(crate) fn trains_on(device: Device) {
    declare_device(NAME, &device_name(device));
    #[cfg(feature = "cuda")]
    if device.is_cuda() {
        mlprof_cuda::measure_actions_on(mlprof_cuda::Stream::default_stream());
    }
}

/// Returns the device's name in PyTorch.
fn device_name(device: Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        Device::Cuda(index) => format!("cuda:{index}"),
        Device::Mps => "mps".to_owned(),
        Device::Vulkan => "vulkan".to_owned(),
    }
}

/// Returns the framework. tch's own version is not available at run time; it follows libtorch's.
fn read() -> Framework {
    let known = [
        (utils::has_mkl(), "mkl"),
        (utils::has_mkldnn(), "mkldnn"),
        (utils::has_openmp(), "openmp"),
        (utils::has_cuda(), "cuda"),
        (utils::has_mps(), "mps"),
    ];
    let features = known.into_iter().filter(|(is_there, _)| *is_there);
    Framework {
        name: NAME.to_owned(),
        version: None,
        library: ffi::version().map(|version| format!("libtorch {version}")),
        features: features.map(|(_, feature)| feature.to_owned()).collect(),
        threads: u64::try_from(tch::get_num_threads()).ok(),
        ..Framework::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_libtorch_says() {
        let tch = read();
        assert_eq!(tch.has("mkl"), utils::has_mkl());
        assert_eq!(tch.threads, u64::try_from(tch::get_num_threads()).ok());
        if crate::ops::is_supported() {
            let library = tch.library.as_deref().expect("its headers were there");
            assert!(library.starts_with("libtorch 2."), "{library}");
        }
        assert_eq!(device_name(Device::Cuda(1)), "cuda:1");
    }
}
