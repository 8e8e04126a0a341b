//! Devices that CUDA shows to a process, and their ids.

/// Device visible to CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visible {
    /// Index among all devices.
    Device(usize),
    /// MIG partition of a device.
    Part,
}

/// Returns the devices that CUDA shows for the value `list` of `CUDA_VISIBLE_DEVICES`, in order of
/// their ids. `uuids` contains all devices in PCI bus order.
///
/// Like CUDA, it stops at the first entry that names no device, more than one device, or a repeated
/// device.
pub(super) fn visible(list: Option<&str>, uuids: &[String]) -> Vec<Visible> {
    let Some(list) = list else { return (0..uuids.len()).map(Visible::Device).collect() };
    let mut found = Vec::new();
    for entry in list.split(',').map(str::trim) {
        if starts_with(entry, "MIG-") {
            found.push(Visible::Part);
            continue;
        }
        match place(entry, uuids).map(Visible::Device) {
            Some(device) if !found.contains(&device) => found.push(device),
            _ => break,
        }
    }
    found
}

fn starts_with(text: &str, beginning: &str) -> bool {
    let start = text.as_bytes().get(..beginning.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(beginning.as_bytes()))
}

/// Returns the index of the single device that an entry names, by number or by the prefix of a
/// UUID.
fn place(entry: &str, uuids: &[String]) -> Option<usize> {
    if !starts_with(entry, "GPU-") {
        return entry.parse().ok().filter(|place| *place < uuids.len());
    }
    let mut found = (0..uuids.len()).filter(|place| starts_with(&uuids[*place], entry));
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn devices_are_those_that_cuda_shows() {
        let uuids = ["GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"].map(str::to_owned);
        let cases: [(Option<&str>, &[usize]); 13] = [
            (None, &[0, 1, 2, 3]),
            (Some("2,0"), &[2, 0]),
            (Some(" 1 , 3 "), &[1, 3]),
            (Some(""), &[]),
            (Some("-1"), &[]),
            (Some("0,-1,1"), &[0]),
            (Some("3,4,0"), &[3]),
            (Some("0,0,1"), &[0]),
            (Some("GPU-bb33,GPU-aa1"), &[2, 0]),
            (Some("gpu-C,1"), &[3, 1]),
            (Some("GPU-aa,1"), &[]),
            (Some("1,GPU-aa22"), &[1]),
            (Some("NoDevFiles"), &[]),
        ];
        for (list, expected) in cases {
            let expected: Vec<_> = expected.iter().copied().map(Visible::Device).collect();
            assert_eq!(visible(list, &uuids), expected, "{list:?}");
        }
        let parts = visible(Some("MIG-GPU-aa11/1/0,2"), &uuids);
        assert_eq!(parts, [Visible::Part, Visible::Device(2)]);
    }
}
