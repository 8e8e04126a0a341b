//! Description of the machine. It is read once, for the first report, except for the devices, which
//! hooks report.

use std::sync::OnceLock;

use crate::report::{Machine, MachineDevice, MachineDeviceParts, MachineParts};
use mlprof_events::descriptions;
use mlprof_events::forking::made_once;

/// Returns the description of the machine that runs this process.
pub(crate) fn of_process() -> Option<Machine> {
    static KNOWN: OnceLock<Machine> = OnceLock::new();
    // Miri cannot read the machine's properties.
    let known = (!cfg!(miri)).then(|| made_once(&KNOWN, read).clone());
    known.map(|mut machine| {
        machine.devices = devices();
        machine
    })
}

fn devices() -> Vec<MachineDevice> {
    let device = |(number, device): (_, mlprof_events::DeviceDescription)| {
        MachineDeviceParts { number, name: device.name, memory_bytes: device.memory }.build()
    };
    descriptions().into_iter().map(device).collect()
}

fn read() -> Machine {
    let value = |file: &str, key: &str| value_of(&std::fs::read_to_string(file).ok()?, key);
    let memory = value("/proc/meminfo", "MemTotal");
    let kilobytes: Option<u64> =
        memory.and_then(|memory| memory.split_whitespace().next()?.parse().ok());
    MachineParts {
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        cpu: value("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().ok().map(|cores| cores.get() as u64),
        memory_bytes: kilobytes.map(|kilobytes| kilobytes * 1024),
        devices: Vec::new(),
    }
    .build()
}

/// Returns the first value of `key` in lines of the form `key : value`.
fn value_of(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Profiler, ProfilerExt, SimpleProfiler};

    #[test]
    fn values_are_found_by_their_keys() {
        let text =
            "processor\t: 0\nmodel name\t: A CPU: the second\nmodel name\t: another\nflags\t:\n";
        assert_eq!(value_of(text, "model name").as_deref(), Some("A CPU: the second"));
        assert_eq!(value_of(text, "flags"), None);
        assert_eq!(value_of(text, "model"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn reports_say_what_ran_and_on_what() {
        let profiler = SimpleProfiler::new();
        drop(profiler.profile("step"));
        let report = profiler.report().expect("a report");
        let header = report.header();
        let own = std::env::current_exe().expect("this program");
        let own = own.file_name().and_then(|name| name.to_str());
        assert_eq!(header.program.as_deref(), own);
        let machine = header.machine.as_ref().expect("it runs on one");
        assert!(machine.system.ends_with(std::env::consts::ARCH), "{machine:?}");
        assert!(machine.cores.is_some_and(|cores| cores > 0), "{machine:?}");
        if cfg!(target_os = "linux") {
            assert!(machine.memory_bytes.is_some_and(|bytes| bytes > 1 << 20), "{machine:?}");
        }
    }
}
