//! Containment of panics in the profiler's code, which must not reach the program.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work` and returns the panic message as an error if it panics. Changes that `work` made
/// before the panic remain.
///
/// *Cost*: one call, unless it panics.
///
/// # Errors
///
/// Returns the panic message.
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        // The payload is leaked, because dropping it may panic again.
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
