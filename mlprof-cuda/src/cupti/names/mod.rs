//! Display names of kernels, copies, fills, waits and overheads. Except for kernels, they equal
//! those of Kineto.

mod demangle;

pub(crate) use demangle::demangled;

/// Returns the name of a copy, such as `Memcpy HtoD (Pageable -> Device)`, from CUPTI's enum
/// values.
pub(crate) fn memcpy(copy_kind: u8, source_kind: u8, destination_kind: u8) -> String {
    let direction = match copy_kind {
        1 => "HtoD",
        2 => "DtoH",
        3 => "HtoA",
        4 => "AtoH",
        5 => "AtoA",
        6 => "AtoD",
        7 => "DtoA",
        8 => "DtoD",
        9 => "HtoH",
        10 => "PtoP",
        _ => "<unknown>",
    };
    let source = memory_kind(source_kind.into());
    let destination = memory_kind(destination_kind.into());
    format!("Memcpy {direction} ({source} -> {destination})")
}

/// Returns the name of a fill, such as `Memset (Device)`, from CUPTI's memory kind.
pub(crate) fn memset(kind: u16) -> String {
    format!("Memset ({})", memory_kind(kind.into()))
}

/// Returns the name of a memory kind.
pub(crate) fn memory_kind(kind: u32) -> &'static str {
    match kind {
        0 => "Unknown",
        1 => "Pageable",
        2 => "Pinned",
        3 => "Device",
        4 => "Array",
        5 => "Managed",
        6 => "Device Static",
        7 => "Managed Static",
        _ => "Unrecognized",
    }
}

/// Returns the name of a wait, from CUPTI's synchronization type.
pub(crate) fn synchronization(kind: u32) -> &'static str {
    match kind {
        1 => "Event Synchronize",
        2 => "Stream Wait Event",
        3 => "Stream Synchronize",
        4 => "Context Synchronize",
        _ => "Synchronize",
    }
}

/// Returns the name of an overhead of CUDA or CUPTI, from CUPTI's overhead kind.
pub(crate) fn overhead(kind: u32) -> &'static str {
    match kind {
        0 => "Unknown",
        1 => "Driver Compiler",
        0x1_0000 => "Buffer Flush",
        0x2_0000 => "Instrumentation",
        0x3_0000 => "Resource",
        0x4_0000 => "Runtime Triggered Module Loading",
        0x5_0000 => "Lazy Function Loading",
        0x6_0000 => "Command Buffer Full",
        0x7_0000 => "Activity Buffer Request",
        0x8_0000 => "Unified Memory Activity Initialization",
        _ => "Unrecognized",
    }
}

/// Returns `true` if an overhead is for compiling or loading kernels. Warm steps have no such
/// overhead.
pub(crate) fn is_of_kernels(overhead: u32) -> bool {
    matches!(overhead, 1 | 0x4_0000 | 0x5_0000)
}

/// Returns a fallback name for a call, such as `cudaRuntime#211`, if CUPTI has no name for its id.
pub(crate) fn api(is_driver: bool, callback: u32) -> String {
    let library = if is_driver { "cudaDriver" } else { "cudaRuntime" };
    format!("{library}#{callback}")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn copies_and_fills_are_called_as_in_kineto() {
        assert_eq!(memcpy(1, 1, 3), "Memcpy HtoD (Pageable -> Device)");
        assert_eq!(memcpy(2, 3, 2), "Memcpy DtoH (Device -> Pinned)");
        assert_eq!(memcpy(8, 3, 3), "Memcpy DtoD (Device -> Device)");
        assert_eq!(memcpy(10, 3, 5), "Memcpy PtoP (Device -> Managed)");
        assert_eq!(memcpy(77, 0, 255), "Memcpy <unknown> (Unknown -> Unrecognized)");
        assert_eq!(memset(3), "Memset (Device)");
        assert_eq!(memset(7), "Memset (Managed Static)");
        assert_eq!(memset(u16::MAX), "Memset (Unrecognized)");
    }

    #[test]
    fn waits_overheads_and_calls_have_names_whatever_their_number() {
        let waits = [1, 2, 3, 4, 5, u32::MAX].map(synchronization);
        assert_eq!(waits[..2], ["Event Synchronize", "Stream Wait Event"]);
        assert_eq!(
            waits[2..],
            ["Stream Synchronize", "Context Synchronize", "Synchronize", "Synchronize"]
        );
        assert_eq!(overhead(1), "Driver Compiler");
        let of_cupti = (1..10).map(|number| overhead(number << 16)).collect::<Vec<_>>();
        let expected = [
            "Buffer Flush",
            "Instrumentation",
            "Resource",
            "Runtime Triggered Module Loading",
            "Lazy Function Loading",
            "Command Buffer Full",
            "Activity Buffer Request",
            "Unified Memory Activity Initialization",
            "Unrecognized",
        ];
        assert_eq!(of_cupti, expected);
        assert_eq!(overhead(0), "Unknown");
        assert_eq!(api(false, 211), "cudaRuntime#211");
        assert_eq!(api(true, 307), "cudaDriver#307");
    }
}
