//! Texts in the data that spliced code shares with this crate.

/// UTF-8 that lives as long as the process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// Its first byte; null for no text.
    pub start: *const u8,
    /// In bytes.
    pub length: usize,
}

impl Text {
    /// # Safety
    ///
    /// `start` must point to `length` bytes that do not change while the answer is used.
    pub unsafe fn read(&self) -> String {
        if self.start.is_null() {
            return String::new();
        }
        // SAFETY: by the contract of this function.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.length) };
        String::from_utf8_lossy(bytes).into_owned()
    }
}
