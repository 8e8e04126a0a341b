//! burn's entry in the report header.

use burn::tensor::Device;
use mlprof_core::hook::{Framework, declare_device, declare_framework};

const NAME: &str = "burn";

/// The supported burn version.
const VERSION: &str = "0.22";

/// Adds burn and its `devices` to the report. Repeated calls are allowed.
pub(crate) fn declare(devices: &[Device]) {
    declare_framework(read);
    devices.iter().for_each(|device| declare_device(NAME, &device_name(device)));
}

/// Returns the device's display name in burn, without the autodiff wrapper: `Flex(Default)`.
pub(crate) fn device_name(device: &Device) -> String {
    let shown = format!("{:?}", device.clone().inner());
    let inner = shown.strip_prefix("Device<").and_then(|rest| rest.strip_suffix('>'));
    inner.unwrap_or(&shown).to_owned()
}

/// Returns burn's name and version. burn exposes neither its build features nor its thread count.
fn read() -> Framework {
    Framework { name: NAME.to_owned(), version: Some(VERSION.to_owned()), ..Framework::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_asked_for() {
        let manifest = include_str!("../../Cargo.toml");
        assert!(manifest.contains(&format!("\nburn = {{ version = \"{VERSION}\"")), "{VERSION}");
    }

    #[test]
    fn devices_are_named_without_what_wraps_them() {
        let name = device_name(&Device::flex());
        assert!(name.starts_with("Flex"), "{name}");
        assert_eq!(device_name(&Device::flex().autodiff()), name);
    }
}
