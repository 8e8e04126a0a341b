//! Metrics of the process, with the names that Prometheus' client libraries use.

use super::family::{Family, Kind};

/// Returns the metrics that Linux provides in `/proc`. On other systems there are none.
pub(super) fn families() -> Vec<Family> {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let status = read("status");
    let kilobytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<f64>().ok()
    };
    let threads = || {
        status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<f64>().ok())
    };
    let memory = |key: &str| kilobytes(key).map(|kilobytes| kilobytes * 1024.0);
    let gauge = |name, value: Option<f64>, help| {
        value.map(|value| Family::new(name, Kind::Gauge, help).number(Vec::new(), value))
    };
    let resident = "Resident memory of the process.";
    let most = "Peak resident memory of the process.";
    let cpu = cpu_seconds(&read("stat")).map(|seconds| {
        let help = "CPU time of all threads of the process.";
        Family::new("process_cpu_seconds_total", Kind::Counter, help).number(Vec::new(), seconds)
    });
    let all = [
        cpu,
        gauge("process_resident_memory_bytes", memory("VmRSS"), resident),
        gauge("process_resident_memory_peak_bytes", memory("VmHWM"), most),
        gauge(
            "process_virtual_memory_bytes",
            memory("VmSize"),
            "Size of the virtual address space of the process.",
        ),
        gauge(
            "process_threads",
            threads(),
            "Number of threads of the process, including mlprof's threads.",
        ),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the CPU time from the text of `/proc/self/stat`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The program name may contain parentheses and spaces, so fields are counted after the last
    // parenthesis.
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    let sum = ticks()? + ticks()?;
    // SAFETY: `sysconf` takes an integer and only reads a system setting.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    (per_second > 0).then(|| sum / per_second as f64)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::family::Value;
    use super::*;

    #[test]
    fn linux_says_what_the_process_takes() {
        let value = |name: &str| {
            let all = families();
            let family = all.iter().find(|family| family.name == name).expect("a family");
            let Value::Number(number) = family.metrics[0].value else { panic!("{family:?}") };
            number
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(
            value("process_resident_memory_peak_bytes")
                >= value("process_resident_memory_bytes") / 2.0
        );
        assert!(value("process_threads") >= 1.0);
        assert_eq!(cpu_seconds("1 (a) b) R 1 2 3 4 5 6 7 8 9 10 150 50 0"), Some(2.0));
        assert_eq!(cpu_seconds(""), None);
    }
}
