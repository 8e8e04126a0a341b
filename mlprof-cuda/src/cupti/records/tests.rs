use std::ffi::c_char;
use std::mem::offset_of;

use super::fixtures;
use super::*;

fn pointer(address: usize) -> *const c_char {
    std::ptr::without_provenance(address)
}

fn kernel(correlation: u32) -> Record {
    Record::Kernel(Kernel {
        start: 0x1111_1111_1111_1101,
        end: 0x1111_1111_1111_1102,
        device: 0x1100_0003,
        context: 0x1100_0004,
        stream: 0x1100_0005,
        correlation,
        grid: [0x1100_0006, 0x1100_0007, 0x1100_0008],
        block: [0x1100_0009, 0x1100_000a, 0x1100_000b],
        registers_per_thread: 0x0201,
        static_shared_memory: 0x1100_000c,
        dynamic_shared_memory: 0x1100_000d,
        local_memory_per_thread: 0x1100_000e,
        graph: 0x1100_0011,
        graph_node: 0x1111_1111_1111_1110,
        name: pointer(0x1111_1111_1111_110f),
    })
}

fn memcpy() -> Record {
    Record::Memcpy(Memcpy {
        copy_kind: 1,
        source_kind: 2,
        destination_kind: 3,
        bytes: 0x2222_2222_2222_2201,
        start: 0x2222_2222_2222_2202,
        end: 0x2222_2222_2222_2203,
        device: 0x2200_0004,
        context: 0x2200_0005,
        stream: 0x2200_0006,
        correlation: 0x2200_0007,
        peers: None,
        graph: 0x2200_0009,
        graph_node: 0x2222_2222_2222_2208,
    })
}

fn memcpy_peer() -> Record {
    Record::Memcpy(Memcpy {
        copy_kind: 10,
        source_kind: 3,
        destination_kind: 5,
        bytes: 0x3333_3333_3333_3301,
        start: 0x3333_3333_3333_3302,
        end: 0x3333_3333_3333_3303,
        device: 0x3300_0004,
        context: 0x3300_0005,
        stream: 0x3300_0006,
        correlation: 0x3300_0009,
        peers: Some(Peers { source_device: 0x3300_0007, destination_device: 0x3300_0008 }),
        graph: 0x3300_000b,
        graph_node: 0x3333_3333_3333_330a,
    })
}

fn memset() -> Record {
    Record::Memset(Memset {
        value: 0x4400_0001,
        bytes: 0x4444_4444_4444_4402,
        memory_kind: 4,
        start: 0x4444_4444_4444_4403,
        end: 0x4444_4444_4444_4404,
        device: 0x4400_0005,
        context: 0x4400_0006,
        stream: 0x4400_0007,
        correlation: 0x4400_0008,
        graph: 0x4400_000a,
        graph_node: 0x4444_4444_4444_4409,
    })
}

fn api(is_driver: bool, callback: u32) -> Record {
    Record::Api(Api {
        is_driver,
        callback,
        start: 0x5555_5555_5555_5501,
        end: 0x5555_5555_5555_5502,
        process: 0x5500_0003,
        thread: 0x5500_0004,
        correlation: 0x5500_0005,
        return_value: 0x5500_0006,
    })
}

fn synchronization(kind: u32, stream: Option<u32>, event: Option<u32>) -> Record {
    Record::Synchronization(Synchronization {
        synchronization_kind: kind,
        start: 0x6666_6666_6666_6601,
        end: 0x6666_6666_6666_6602,
        correlation: 0x6600_0003,
        context: 0x6600_0004,
        stream,
        event,
        return_value: 0x6600_0007,
    })
}

fn overhead(kind: u32, object_kind: u32, thread: Option<u32>) -> Record {
    Record::Overhead(Overhead {
        overhead_kind: kind,
        object_kind,
        thread,
        start: 0x7777_7777_7777_7702,
        end: 0x7777_7777_7777_7703,
    })
}

fn memory(operation: u32, stream: Option<u32>, pool: Option<Pool>) -> Record {
    Record::Memory(Memory {
        operation,
        memory_kind: 3,
        correlation: 0x8800_0001,
        address: 0x8888_8888_8888_8802,
        bytes: 0x8888_8888_8888_8803,
        timestamp: 0x8888_8888_8888_8804,
        device: 0x8800_0005,
        context: 0x8800_0006,
        stream,
        is_async: stream.is_some(),
        pool,
    })
}

fn marker(flags: u32, object_kind: u32, thread: Option<u32>) -> Record {
    Record::Marker(Marker {
        flags,
        timestamp: 0x9999_9999_9999_9901,
        id: 0x9900_0002,
        object_kind,
        thread,
        name: pointer(0x1999_9999_9999_9904),
        domain: pointer(0x1999_9999_9999_9905),
    })
}

/// Returns the expected records of each fixture, in order.
fn expected() -> [Record; 17] {
    let pool = Pool { size: 0x8888_8888_8888_8808, utilized: 0x8888_8888_8888_8809 };
    let external = ExternalCorrelation {
        external_kind: 4,
        external: 0xaaaa_aaaa_aaaa_aa01,
        correlation: 0xaa00_0002,
    };
    [
        kernel(0x1100_0012),
        kernel(0x1100_0013),
        memcpy(),
        memcpy_peer(),
        memset(),
        api(false, 211),
        api(true, 307),
        synchronization(2, Some(0x6600_0005), Some(0x6600_0006)),
        synchronization(4, None, None),
        overhead(5 << 16, 2, Some(0x7700_0001)),
        overhead(3 << 16, 3, None),
        memory(1, Some(0x8800_0007), Some(pool)),
        memory(2, None, None),
        Record::ExternalCorrelation(external),
        marker(2, 2, Some(0x9900_0003)),
        marker(4, 1, None),
        Record::Other(13),
    ]
}

/// Lists the offsets and sizes of a layout's fields.
macro_rules! fields {
    ($layout:ident: $($field:ident)*) => {
        vec![$((
            offset_of!(layout::$layout, $field),
            size_of_field(|record: &layout::$layout| &raw const record.$field),
        )),*]
    };
}

fn size_of_field<P, F>(_: fn(&P) -> *const F) -> usize {
    size_of::<F>()
}

/// Returns the expected fields of a fixture record, in the order in which `fixture.c` sets them.
fn expected_fields(record: &Record) -> Vec<(usize, usize)> {
    match record {
        Record::Kernel(_) => fields!(Kernel: kind registers_per_thread start end device context
            stream grid_x grid_y grid_z block_x block_y block_z static_shared_memory
            dynamic_shared_memory local_memory_per_thread correlation name graph_node graph),
        Record::Memcpy(Memcpy { peers: None, .. }) => fields!(Memcpy: kind copy_kind source_kind
            destination_kind bytes start end device context stream correlation graph_node graph),
        Record::Memcpy(_) => fields!(MemcpyPeer: kind copy_kind source_kind destination_kind bytes
            start end device context stream source_device destination_device correlation graph_node
            graph),
        Record::Memset(_) => fields!(Memset: kind value bytes start end device context stream
            correlation memory_kind graph_node graph),
        Record::Api(_) => fields!(Api: kind callback start end process thread correlation
            return_value),
        Record::Synchronization(_) => fields!(Synchronization: kind synchronization_kind start end
            correlation context stream event return_value),
        Record::Overhead(_) => fields!(Overhead: kind overhead_kind object_kind object_thread start
            end),
        Record::Memory(_) => fields!(Memory: kind operation memory_kind correlation address bytes
            timestamp device context stream is_async pool_kind pool_size pool_utilized),
        Record::ExternalCorrelation(_) => fields!(ExternalCorrelation: kind external_kind external
            correlation),
        Record::Marker(_) => fields!(Marker: kind flags timestamp id object_kind object_thread name
            domain),
        Record::Other(_) => fields!(Head: kind),
    }
}

#[test]
fn records_of_every_version_are_read_as_its_headers_lay_them_out() {
    let fixtures = fixtures::all();
    let versions: Vec<u64> = fixtures.iter().map(|fixture| fixture.version).collect();
    assert_eq!(versions, [28, 130_001, 130_101, 130_202, 130_301, 130_401, 130_500]);
    for fixture in fixtures {
        assert_eq!(fixture.records.len(), expected().len());
        for (record, expected) in fixture.records.iter().zip(expected()) {
            assert_eq!(read(&record.bytes), Ok(expected), "version {}", fixture.version);
            assert_eq!(record.fields, expected_fields(&expected), "version {}", fixture.version);
        }
    }
}

#[test]
fn bytes_behind_a_record_and_where_it_lies_make_no_difference() {
    for record in fixtures::all().into_iter().flat_map(|fixture| fixture.records) {
        let alone = read(&record.bytes);
        for shift in 1..9 {
            let moved = [vec![0x55; shift], record.bytes.clone(), vec![0x77; 300]].concat();
            assert_eq!(read(&moved[shift..]), alone);
        }
    }
}

#[test]
fn a_record_that_is_cut_off_is_told_so_or_read_as_if_whole() {
    for record in fixtures::all().into_iter().flat_map(|fixture| fixture.records) {
        let whole = read(&record.bytes).expect("a whole record");
        let end = record.fields.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
        for length in 0..record.bytes.len() {
            match read(&record.bytes[..length]) {
                Ok(read) => assert!(read == whole && length >= end),
                Err(Truncated { needed, available }) => {
                    assert_eq!(available, length);
                    assert!(needed > length && needed <= record.bytes.len());
                    assert!(needed <= end + 8, "more than the last field that is read");
                }
            }
        }
    }
}

#[test]
fn kinds_that_are_not_known_are_named_by_their_number() {
    let known = [1, 2, 3, 4, 5, 10, 12, 17, 22, 38, 39, 49];
    for kind in (0..200).chain([1000, u32::MAX]).filter(|kind| !known.contains(kind)) {
        assert_eq!(read(&kind.to_ne_bytes()), Ok(Record::Other(kind)));
    }
    for kind in known {
        let bytes = kind.to_ne_bytes();
        assert!(matches!(read(&bytes), Err(Truncated { available: 4, .. })));
    }
    assert_eq!(read(&[]), Err(Truncated { needed: 4, available: 0 }));
    assert_eq!(
        Truncated { needed: 4, available: 3 }.to_string(),
        "a CUPTI record is truncated: it has 3 of at least 4 bytes"
    );
}

#[test]
fn shared_memory_of_a_kernel_is_both_kinds_together() {
    let Record::Kernel(kernel) = kernel(0) else { panic!("a kernel") };
    assert_eq!(kernel.shared_memory(), 0x2200_0019);
    let most = Kernel { static_shared_memory: u32::MAX, ..kernel };
    assert_eq!(most.shared_memory(), u32::MAX);
}
