//! Panics that are not the program's own, and must not reach it.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does `work`; the message of its panic if it panics. What the work has changed until then stays
/// as it is.
///
/// *Cost*: nothing but a call, unless it panics.
///
/// # Errors
///
/// The message.
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        // Not dropped: what a panic carries may panic itself.
        std::mem::forget(panic);
        text.unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_its_message_whatever_it_carries() {
        struct PanicsAgain;
        impl Drop for PanicsAgain {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert_eq!(contain(|| 7), Ok(7));
        assert_eq!(contain(|| panic!("literal")), Err::<(), _>("literal".into()));
        assert_eq!(contain(|| panic!("made: {}", 7)), Err::<(), _>("made: 7".into()));
        let other = contain(|| std::panic::panic_any(PanicsAgain));
        assert_eq!(other, Err::<(), _>("a panic without a message".into()));
    }
}
