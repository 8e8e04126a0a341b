//! Names of threads in reports.

use std::sync::atomic::{AtomicU64, Ordering};

/// Name of a thread in reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThreadName {
    /// Displayed name.
    pub name: String,
    /// Set if the thread has no name of its own.
    pub is_made_up: bool,
}

impl ThreadName {
    /// Returns the name for a thread of which only the operating system's id is known.
    pub fn of_number(number: u64) -> Self {
        Self { name: format!("thread {number}"), is_made_up: true }
    }

    /// Returns the name of the calling thread: its own name, the system's name, or a number.
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
