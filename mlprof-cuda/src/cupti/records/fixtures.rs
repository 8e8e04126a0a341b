//! Records laid out by a C compiler from CUPTI's headers, written by `tests/cupti/fixture.c`.

/// Contents of one fixture file.
pub(super) struct Fixture {
    /// `CUPTI_API_VERSION` of the headers.
    pub(super) version: u64,
    pub(super) records: Vec<FixtureRecord>,
}

/// Record of a fixture file.
pub(super) struct FixtureRecord {
    /// Offset and size of each initialised field in bytes.
    pub(super) fields: Vec<(usize, usize)>,
    pub(super) bytes: Vec<u8>,
}

/// Returns the fixtures of all CUPTI versions.
pub(super) fn all() -> Vec<Fixture> {
    [
        include_bytes!("../../../tests/cupti/records-12.9.bin").as_slice(),
        include_bytes!("../../../tests/cupti/records-13.0.bin"),
        include_bytes!("../../../tests/cupti/records-13.1.bin"),
        include_bytes!("../../../tests/cupti/records-13.2.bin"),
        include_bytes!("../../../tests/cupti/records-13.3.bin"),
        include_bytes!("../../../tests/cupti/records-13.4.bin"),
        include_bytes!("../../../tests/cupti/records-13.5.bin"),
    ]
    .into_iter()
    .map(parse)
    .collect()
}

fn parse(mut bytes: &[u8]) -> Fixture {
    let version = u64::from_le_bytes(take(&mut bytes));
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(take(&mut bytes)) as usize;
        let field_count = u64::from_le_bytes(take(&mut bytes)) as usize;
        let mut number = || u32::from_le_bytes(take(&mut bytes)) as usize;
        let fields = (0..field_count).map(|_| (number(), number())).collect();
        let (record, rest) = bytes.split_at(length);
        records.push(FixtureRecord { fields, bytes: record.to_vec() });
        bytes = rest;
    }
    Fixture { version, records }
}

fn take<const LENGTH: usize>(bytes: &mut &[u8]) -> [u8; LENGTH] {
    let (taken, rest) = bytes.split_first_chunk().expect("a whole file");
    *bytes = rest;
    *taken
}
