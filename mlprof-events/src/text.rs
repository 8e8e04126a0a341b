//! Strings in the data that instrumented code shares with this crate.

/// A UTF-8 string that lives as long as the process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// Pointer to the first byte; null for an empty string.
    pub start: *const u8,
    /// Length in bytes.
    pub length: usize,
}

impl Text {
    /// # Safety
    ///
    /// If `start` is not null, it must point to `length` readable bytes that do not change during
    /// the call.
    pub unsafe fn read(&self) -> String {
        if self.start.is_null() {
            return String::new();
        }
        // SAFETY: `start` is not null. By the contract of this function it points to `length`
        // readable bytes that do not change during the call.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.length) };
        String::from_utf8_lossy(bytes).into_owned()
    }
}
