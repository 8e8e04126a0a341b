//! The operating system's counters of bytes, for the calling thread.

#[cfg(target_os = "linux")]
pub(super) use linux::read;

#[cfg(not(target_os = "linux"))]
pub(super) fn read() -> Result<crate::report::simple::IoStatistics, String> {
    Err("bytes read and written can be measured on Linux only".to_owned())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::cell::RefCell;
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;

    use crate::report::simple::IoStatistics;

    const PATH: &str = "/proc/thread-self/io";

    thread_local! {
        static READER: RefCell<Option<io::Result<Reader>>> = const { RefCell::new(None) };
    }

    /// What the calling thread has read and written since it began, without what reading these
    /// counters added; or why that is not known, in a sentence.
    ///
    /// *Cost*: a system call; the first time on a thread, opening a file that stays open as long as
    /// the thread.
    pub(in crate::simple::counters) fn read() -> Result<IoStatistics, String> {
        let read = READER.try_with(|reader| {
            let mut reader = reader.borrow_mut();
            match reader.get_or_insert_with(Reader::open) {
                Ok(reader) => reader.read().map_err(|error| explain(&error)),
                Err(error) => Err(explain(error)),
            }
        });
        read.unwrap_or_else(|_| Err("a thread that was being torn down has no counters".into()))
    }

    fn explain(error: &io::Error) -> String {
        format!("bytes read and written are not complete: cannot read {PATH}: {error}")
    }

    struct Reader {
        file: File,
        /// Bytes that readings of this thread have returned: the system counts those too, for all
        /// readings but the one that is under way.
        own: u64,
    }

    impl Reader {
        fn open() -> io::Result<Self> {
            Ok(Self { file: File::open(PATH)?, own: 0 })
        }

        fn read(&mut self) -> io::Result<IoStatistics> {
            // Seven lines of a name and a number of at most 20 digits.
            let mut buffer = [0; 512];
            let length = self.file.read_at(&mut buffer, 0)?;
            let mut counters = parse(&buffer[..length]);
            counters.read_bytes = counters.read_bytes.saturating_sub(self.own);
            self.own += length as u64;
            Ok(counters)
        }
    }

    /// Counters that are missing are 0.
    fn parse(text: &[u8]) -> IoStatistics {
        let mut counters = IoStatistics::default();
        for line in String::from_utf8_lossy(text).lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            let counter = match name {
                "rchar" => &mut counters.read_bytes,
                "wchar" => &mut counters.written_bytes,
                "read_bytes" => &mut counters.storage_read_bytes,
                "write_bytes" => &mut counters.storage_written_bytes,
                _ => continue,
            };
            *counter = value.trim().parse().unwrap_or(0);
        }
        counters
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_four_counters_are_told_from_the_others() {
            let text = "rchar: 1\nwchar: 22\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\n\
                        write_bytes: 8192\ncancelled_write_bytes: 7\n";
            let expected = IoStatistics {
                read_bytes: 1,
                written_bytes: 22,
                storage_read_bytes: 4096,
                storage_written_bytes: 8192,
            };
            assert_eq!(parse(text.as_bytes()), expected);
            assert_eq!(parse(b"garbage\xff\nrchar: x"), IoStatistics::default());
        }

        /// The system does count our own readings, and they are taken off to the byte.
        #[test]
        fn readings_do_not_count_themselves() {
            let system = |counter: &str| -> u64 {
                let mut buffer = [0; 512];
                // Opened anew, so that nothing is subtracted.
                let length = File::open(PATH).and_then(|file| file.read_at(&mut buffer, 0));
                let text = String::from_utf8_lossy(&buffer[..length.expect("/proc")]).into_owned();
                let line = text.lines().find_map(|line| line.strip_prefix(counter));
                line.expect("the counter").parse().expect("a number")
            };
            std::thread::spawn(move || {
                let first = read().expect("Linux");
                let before = system("rchar: ");
                let raw = read().expect("Linux").read_bytes;
                for _ in 0..100 {
                    assert_eq!(read().expect("Linux").read_bytes, raw);
                }
                let after = system("rchar: ");
                assert!(after - before > 100 * 80, "{}", after - before);
                assert!(raw > first.read_bytes, "the reading past ours is counted");
            })
            .join()
            .expect("no panic");
        }
    }
}
