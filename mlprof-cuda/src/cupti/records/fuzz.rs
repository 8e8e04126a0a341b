//! Fuzz tests of the record parser. It may fail only if there are too few bytes.

use proptest::prelude::*;

use super::{Record, Truncated, fixtures, read};

/// Returns the number of bytes that the parser reads for each record kind.
fn needed(kind: u32) -> usize {
    match kind {
        1 | 2 => 80,
        3 | 10 => 160,
        22 => 88,
        4 | 5 | 17 => 40,
        12 | 38 => 56,
        39 => 24,
        49 => 120,
        _ => 4,
    }
}

fn check(bytes: &[u8]) {
    let Some(kind) = bytes.first_chunk().map(|kind| u32::from_ne_bytes(*kind)) else {
        assert_eq!(read(bytes), Err(Truncated { needed: 4, available: bytes.len() }));
        return;
    };
    let (needed, available) = (needed(kind), bytes.len());
    match read(bytes) {
        Ok(record) => {
            assert!(available >= needed);
            assert_eq!(read(&bytes[..needed]), Ok(record));
            assert_eq!(matches!(record, Record::Other(_)), needed == 4);
        }
        Err(truncated) => {
            assert!(available < needed);
            assert_eq!(truncated, Truncated { needed, available });
        }
    }
}

/// Generates random bytes, mostly of a known record kind.
fn random_bytes() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![4 => 0..60_u32, 1 => any::<u32>()];
    (kind, prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(kind, mut bytes)| {
        let length = bytes.len().min(4);
        bytes[..length].copy_from_slice(&kind.to_ne_bytes()[..length]);
        bytes
    })
}

/// Generates fixture records with some bytes changed, truncated or extended.
fn mutated_records() -> impl Strategy<Value = Vec<u8>> {
    let records: Vec<Vec<u8>> = fixtures::all()
        .into_iter()
        .flat_map(|fixture| fixture.records)
        .map(|record| record.bytes)
        .collect();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    (prop::sample::select(records), changes, 0..300_usize).prop_map(
        |(mut bytes, changes, length)| {
            for (index, value) in changes {
                let index = index.index(bytes.len());
                bytes[index] = value;
            }
            bytes.resize(length, 0xAB);
            bytes
        },
    )
}

proptest! {
    #[test]
    fn random_bytes_are_read_or_too_few(bytes in random_bytes()) {
        check(&bytes);
    }

    #[test]
    fn mutated_records_are_read_or_too_few(bytes in mutated_records()) {
        check(&bytes);
    }
}
