//! What threads are called.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a thread is called in reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThreadName {
    /// As it is shown.
    pub name: String,
    /// The thread has no name of its own.
    pub is_made_up: bool,
}

impl ThreadName {
    /// Of a thread of which only the operating system's number is known.
    pub fn of_number(number: u64) -> Self {
        Self { name: format!("thread {number}"), is_made_up: true }
    }

    /// Of the calling thread: its own name, the system's, or a number.
    pub fn of_this_thread() -> Self {
        static UNNAMED: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static NUMBER: u64 = UNNAMED.fetch_add(1, Ordering::Relaxed) + 1;
        }
        let own = std::thread::current().name().map(str::to_owned);
        match own.or_else(super::startup::name_of_system_thread) {
            Some(name) => Self { name, is_made_up: false },
            None => {
                let number = NUMBER.try_with(|number| *number).unwrap_or(0);
                Self { name: format!("thread-{number}"), is_made_up: true }
            }
        }
    }
}
