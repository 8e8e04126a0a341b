//! Hash values that are stable across versions.

/// FNV-1a hash. The standard library's hashers may change between versions.
#[derive(Debug, Clone, Copy)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Continues from the number of an earlier fingerprint.
    #[must_use]
    pub fn continued(number: u64) -> Self {
        Self(number)
    }

    /// Returns the fingerprint with further bytes added.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        self.add(bytes);
        self
    }

    /// Adds further bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// Returns the number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}
