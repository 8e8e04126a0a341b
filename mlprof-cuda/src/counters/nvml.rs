//! Access to NVML, NVIDIA's management library. It is part of the driver and is loaded at run time.

use mlprof_events::environment::variable;
use std::ffi::OsString;

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device as NvmlDevice, Nvml};

use super::sampled::{Device, NoValue, Reading, Sampled};
use super::visible::{Visible, visible};
use mlprof_core::hook::{DeviceCounter, declare_device_memory};

/// Environment variable that overrides the library path.
const LIBRARY_VARIABLE: &str = "MLPROF_NVML_LIBRARY";

const LIBRARY: &str = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };

/// Reason why there are no counters.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoCounters {
    #[error(
        "no device counters: cannot load NVML ({library}): {why}; install NVIDIA's driver, which contains it"
    )]
    NoLibrary { library: String, why: String },
    #[error("no device counters: {library} is not NVML: {why}")]
    OtherLibrary { library: String, why: String },
    #[error("no device counters: NVML is installed, but NVIDIA's driver is not loaded")]
    NoDriver,
    #[error("no device counters: this process is not permitted to use NVIDIA's driver")]
    NotPermitted,
    #[error(
        "no device counters: NVML and the running driver have different versions; restart the machine after a \
         driver update"
    )]
    Mismatch,
    #[error("no device counters: cannot initialise NVML: {0}")]
    Other(NvmlError),
    #[error("no device counters: NVML finds no device for this process")]
    NoDevice,
    #[error("no device counters: CUDA_VISIBLE_DEVICES={0} names no existing device")]
    NoneVisible(String),
    #[error(
        "no device counters: CUDA_VISIBLE_DEVICES={0} names MIG instances, which have no counters"
    )]
    OnlyParts(String),
    #[error("no device counters in this process: it was forked after its parent had loaded NVML")]
    Forked,
}

impl NoCounters {
    fn of(error: NvmlError, library: String) -> Self {
        match error {
            NvmlError::LibloadingError(why) => Self::NoLibrary { library, why: why.to_string() },
            NvmlError::FailedToLoadSymbol(why) => Self::OtherLibrary { library, why },
            NvmlError::DriverNotLoaded => Self::NoDriver,
            NvmlError::NoPermission => Self::NotPermitted,
            NvmlError::LibRmVersionMismatch => Self::Mismatch,
            error => Self::Other(error),
        }
    }
}

/// Devices of this process, and a note for the report.
pub(super) struct Board {
    pub(super) devices: Vec<Sampled<NvmlDevice<'static>>>,
    pub(super) note: Option<String>,
}

/// Loads NVML for the rest of the process. *Cost*: about 10 ms to several seconds.
pub(super) fn open() -> Result<Board, NoCounters> {
    let named = variable(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
    let library = named.unwrap_or_else(|| OsString::from(LIBRARY));
    let name = library.to_string_lossy().into_owned();
    let nvml = Nvml::builder().lib_path(&library).init();
    let nvml = nvml.map_err(|error| NoCounters::of(error, name.clone()))?;
    let nvml: &'static Nvml = Box::leak(Box::new(nvml));
    let all = all_devices(nvml).map_err(|error| NoCounters::of(error, name))?;
    if all.is_empty() {
        return Err(NoCounters::NoDevice);
    }
    let list = std::env::var_os("CUDA_VISIBLE_DEVICES");
    let list = list.map(|list| list.to_string_lossy().into_owned());
    let uuids: Vec<_> = all.iter().map(|known| known.uuid.clone()).collect();
    let visible = visible(list.as_deref(), &uuids);
    let list = list.unwrap_or_default();
    if visible.is_empty() {
        return Err(NoCounters::NoneVisible(list));
    }
    let note = note_on_order(&all, &list);
    let mut all: Vec<_> = all.into_iter().map(|known| Some(known.device)).collect();
    let device = |(number, visible): (u32, Visible)| match visible {
        Visible::Device(place) => {
            let device = all.get_mut(place)?.take()?;
            if let Ok(memory) = device.memory_info() {
                declare_device_memory(number, memory.total);
            }
            Some(Sampled::new(number, device))
        }
        Visible::Part => None,
    };
    let devices: Vec<_> = (0..).zip(visible).filter_map(device).collect();
    match devices.is_empty() {
        true => Err(NoCounters::OnlyParts(list)),
        false => Ok(Board { devices, note }),
    }
}

struct DeviceIdentity {
    /// PCI domain, bus and device.
    place: (u32, u32, u32),
    uuid: String,
    model: String,
    device: NvmlDevice<'static>,
}

/// Returns all accessible devices in order of their PCI bus ids. CUDA cannot use a device that this
/// process may not query.
fn all_devices(nvml: &'static Nvml) -> Result<Vec<DeviceIdentity>, NvmlError> {
    let known = |device: NvmlDevice<'static>| -> Result<DeviceIdentity, NvmlError> {
        let place = device.pci_info().map(|pci| (pci.domain, pci.bus, pci.device))?;
        let model = device.name().unwrap_or_default();
        Ok(DeviceIdentity { place, uuid: device.uuid()?, model, device })
    };
    let numbers = 0..nvml.device_count()?;
    let devices = numbers.filter_map(|number| nvml.device_by_index(number).and_then(known).ok());
    let mut devices: Vec<_> = devices.collect();
    devices.sort_by_key(|known| known.place);
    Ok(devices)
}

/// Returns a note if CUDA's device ids may differ from the PCI order. They agree if CUDA orders
/// devices by PCI bus id or if all devices are of one model.
fn note_on_order(all: &[DeviceIdentity], list: &str) -> Option<String> {
    let is_one_model = all.iter().all(|known| known.model == all[0].model);
    let order = std::env::var_os("CUDA_DEVICE_ORDER");
    let is_by_place = order.is_some_and(|order| order == "PCI_BUS_ID");
    let has_numbers = !list.starts_with("GPU-");
    (!is_one_model && !is_by_place && has_numbers && all.len() > 1).then(|| {
        "device counters number the devices by bus position, but CUDA may number different models by speed; \
         set CUDA_DEVICE_ORDER=PCI_BUS_ID for the same numbers"
            .to_owned()
    })
}

impl Device for NvmlDevice<'static> {
    fn read(
        &self,
        reading: Reading,
        show: &mut dyn FnMut(DeviceCounter, f64),
    ) -> Result<(), NoValue> {
        match reading {
            Reading::Utilization => {
                let both = self.utilization_rates().map_err(no_value)?;
                show(DeviceCounter::GpuUtilization, f64::from(both.gpu));
                show(DeviceCounter::MemoryUtilization, f64::from(both.memory));
            }
            Reading::Memory => {
                let memory = self.memory_info().map_err(no_value)?;
                show(DeviceCounter::MemoryUsed, memory.used as f64);
            }
            Reading::Power => {
                let milliwatts = self.power_usage().map_err(no_value)?;
                show(DeviceCounter::Power, f64::from(milliwatts) / 1000.0);
            }
            Reading::Temperature => {
                let degrees = self.temperature(TemperatureSensor::Gpu).map_err(no_value)?;
                show(DeviceCounter::Temperature, f64::from(degrees));
            }
            Reading::SmClock => {
                let megahertz = self.clock_info(Clock::SM).map_err(no_value)?;
                show(DeviceCounter::SmClock, f64::from(megahertz));
            }
            Reading::MemoryClock => {
                let megahertz = self.clock_info(Clock::Memory).map_err(no_value)?;
                show(DeviceCounter::MemoryClock, f64::from(megahertz));
            }
        }
        Ok(())
    }
}

fn no_value(error: NvmlError) -> NoValue {
    match error {
        NvmlError::NotSupported
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::FunctionNotFound
        | NvmlError::InvalidArg
        | NvmlError::NoPermission => NoValue::Never,
        NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::Uninitialized => NoValue::Lost,
        _ => NoValue::Now,
    }
}
