//! Checks the kernels of candle's ops.

use candle_core::{Device, Tensor};
use mlprof_core::hook::DeviceActivity;
use mlprof_core::profile;

use super::Shared;
use crate::options::Options;
use crate::outcome::Row;
use crate::recording::{Event, Plan, record};

const ACTION: &str = "candle_product";

pub fn run(_: &Options, _: &mut Shared) -> Result<Vec<Row>, String> {
    let explain = |error: candle_core::Error| format!("candle: {error}");
    let device = Device::new_cuda(0).map_err(explain)?;
    let matrix = || Tensor::randn(0f32, 1.0, (256, 256), &device);
    let (one, other) = (matrix().map_err(explain)?, matrix().map_err(explain)?);
    // Libraries are loaded and kernels are compiled at their first use.
    one.matmul(&other).map_err(explain)?;
    device.synchronize().map_err(explain)?;
    let recorded = record(Plan { keeps_events: true, ..Plan::default() }, |_| {
        let work = || {
            let _scope = profile!(ACTION);
            one.matmul(&other)?.relu()?.sum_all()
        };
        work().map_err(explain)?;
        device.synchronize().map_err(explain)
    })?;
    let kernels: Vec<&Event> = recorded
        .recording
        .events
        .iter()
        .filter(|event| event.activity == DeviceActivity::Kernel)
        .collect();
    let inside = kernels.iter().filter(|kernel| kernel.actions.contains(&ACTION)).count();
    let rows = &recorded.report.key_averages.rows;
    let row = rows.iter().find(|row| row.name == ACTION);
    let has_time = row.is_some_and(|row| row.device_seconds > 0.0);
    let measured = format!(
        "{inside} of {} kernels belong to the action; its row has {} device time",
        kernels.len(),
        if has_time { "its" } else { "no" }
    );
    // A matrix product, an elementwise function and a sum are three ops.
    let is_good = kernels.len() >= 3 && inside == kernels.len() && has_time;
    Ok(vec![Row::decided("candle", measured, "at least 3, and all belong to it", is_good)])
}
