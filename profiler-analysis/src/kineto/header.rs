//! What a trace says of itself.

use serde_json::Value;

use super::time::nanoseconds;
use crate::trace::{ClockReading, Info};

/// Takes over a field that is not the events.
pub(super) fn field(info: &mut Info, field: &str, value: &Value) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let small = |name: &str| number(name).and_then(|number| u32::try_from(number).ok());
    match field {
        "distributedInfo" => {
            info.rank = small("rank").unwrap_or(info.rank);
            info.world_size = small("world_size").unwrap_or(info.world_size);
        }
        "baseTimeNanoseconds" => info.base_ns = value.as_i64().unwrap_or(0),
        "hostname" => info.host = text(value),
        "mlprof" => {
            info.stage = value.get("stage").and_then(text);
            info.cycle = number("cycle").unwrap_or(0);
            info.boot_id = value.get("boot_id").and_then(text);
            let clocks = value.get("clocks").and_then(Value::as_array).into_iter().flatten();
            info.clocks = clocks.filter_map(clock).collect();
            let dropped = ["dropped_events", "dropped_memory_events", "dropped_device_events"];
            info.dropped = dropped.iter().filter_map(|name| number(name)).sum();
        }
        _ => {}
    }
}

/// What the machine's clocks showed.
fn clock(value: &Value) -> Option<ClockReading> {
    let number = |name: &str| value.get(name).and_then(Value::as_i64);
    Some(ClockReading {
        time: nanoseconds(&value.get("ts")?.to_string())?,
        realtime: number("realtime_ns")?,
        monotonic: number("monotonic_ns"),
        error: number("error_ns").unwrap_or(0),
    })
}
