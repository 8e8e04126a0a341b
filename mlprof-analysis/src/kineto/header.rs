//! Top-level fields of a trace other than its events.

use serde_json::Value;

use super::time::{LATEST, nanoseconds};
use super::values::number_of;
use crate::trace::{ClockReading, DeviceInfo, Info};

/// Stores a top-level field in `info`.
pub(super) fn field(info: &mut Info, field: &str, value: &Value) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let number =
        |name: &str| value.get(name).and_then(integer).and_then(|it| u64::try_from(it).ok());
    let small = |name: &str| {
        let number = number(name).and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number <= Info::MOST_RANKS)
    };
    match field {
        "distributedInfo" => {
            if let Some(rank) = small("rank") {
                (info.rank, info.has_rank) = (rank, true);
            }
            info.world_size = small("world_size").unwrap_or(info.world_size);
        }
        "baseTimeNanoseconds" => info.base_ns = integer(value).filter(is_time).unwrap_or(0),
        "hostname" => info.host = text(value),
        "deviceProperties" => {
            info.devices = value.as_array().into_iter().flatten().filter_map(device).collect();
        }
        "mlprof" => {
            info.stage = value.get("stage").and_then(text);
            info.cycle = number("cycle").unwrap_or(0);
            info.boot_id = value.get("boot_id").and_then(text);
            let clocks = value.get("clocks").and_then(Value::as_array).into_iter().flatten();
            info.clocks = clocks.filter_map(clock).collect();
            let pauses = value.get("pauses").and_then(Value::as_array).into_iter().flatten();
            info.pauses = pauses.filter_map(pause).collect();
            info.pauses.sort_unstable();
            let dropped = ["dropped_events", "dropped_memory_events", "dropped_device_events"];
            let dropped = dropped.iter().filter_map(|name| number(name));
            info.dropped = dropped.fold(0, u64::saturating_add);
        }
        _ => {}
    }
}

/// Parses a device from the fields that Kineto writes.
fn device(value: &Value) -> Option<DeviceInfo> {
    let number = |name: &str| value.get(name).and_then(integer);
    Some(DeviceInfo {
        number: u32::try_from(number("id")?).ok()?,
        name: value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        memory: number("totalGlobalMem").and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
    })
}

/// Returns an integer, which may be written as a string.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number
            .as_i64()
            .or_else(|| number.as_f64().filter(|it| it.abs() < 9e18).map(|it| it as i64)),
        Value::String(text) => number_of(text),
        _ => None,
    }
}

fn is_time(nanoseconds: &i64) -> bool {
    (-LATEST..=LATEST).contains(nanoseconds)
}

/// Parses the start and end of a recording pause.
fn pause(value: &Value) -> Option<(i64, i64)> {
    let time = |name: &str| nanoseconds(&value.get(name)?.to_string()).filter(is_time);
    time("ts").zip(time("until"))
}

/// Parses a reading of the machine's clocks.
fn clock(value: &Value) -> Option<ClockReading> {
    let number = |name: &str| value.get(name).and_then(integer).filter(is_time);
    Some(ClockReading {
        time: nanoseconds(&value.get("ts")?.to_string()).filter(is_time)?,
        realtime: number("realtime_ns")?,
        monotonic: number("monotonic_ns"),
        error: number("error_ns").unwrap_or(0),
    })
}
