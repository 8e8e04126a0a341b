//! Compares regions of a stream with the kernels inside them.

use mlprof_core::hook::DeviceActivity;
use mlprof_cuda::profile_device;

use super::Shared;
use crate::gpu::Kernel;
use crate::options::Options;
use crate::outcome::Row;
use crate::recording::{Event, Plan, record};
use crate::statistics::{difference, time};

/// Number of kernels in a region, each of about 30 µs.
const KERNELS: u64 = 300;
/// Maximum relative difference between a region and its kernels.
pub const PART: f64 = 0.05;

pub fn run(_: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let gpu = shared.gpu()?;
    // The first region includes the initialisation of the device.
    gpu.launch(Kernel::Spin, 10)?;
    gpu.wait()?;
    let recorded = record(Plan { keeps_events: true, ..Plan::default() }, |_| {
        for name in ["first region", "region"] {
            gpu.wait()?;
            let _region = profile_device(name, gpu.stream());
            gpu.launch(Kernel::Spin, KERNELS)?;
        }
        gpu.wait()
    })?;
    let events = &recorded.recording.events;
    let is_region = |event: &&Event| event.activity == DeviceActivity::Region;
    let region = events.iter().filter(is_region).find(|event| event.name == "region");
    let region = region.ok_or_else(|| no_region(&recorded.report.header.notes))?;
    let mut kernels: Vec<&Event> =
        events.iter().filter(|event| event.activity == DeviceActivity::Kernel).collect();
    kernels.sort_by_key(|event| event.start);
    let kernels = kernels.split_off(kernels.len().saturating_sub(KERNELS as usize));
    let (Some(first), Some(last)) = (kernels.first(), kernels.last()) else {
        return Err("no kernel was collected".to_owned());
    };
    let (device, driver) = (region.nanoseconds(), (last.end - first.start) as f64);
    let measured = format!(
        "region {}; first to last kernel {}; the region begins {} before the first kernel",
        time(device),
        time(driver),
        time((first.start - region.start) as f64)
    );
    let is_good = difference(device, driver) <= PART;
    Ok(vec![Row::decided("regions: one and its kernels", measured, "within 5 %", is_good)])
}

fn no_region(notes: &[String]) -> String {
    format!("the region has no device time; notes: {}", notes.join("; "))
}
