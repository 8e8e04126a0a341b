//! Bytes read and written by the calling thread, as counted by the operating system.

#[cfg(target_os = "linux")]
pub(super) use linux::read;

#[cfg(not(target_os = "linux"))]
pub(super) fn read() -> Result<crate::report::simple::IoStatistics, String> {
    Err("bytes read and written require Linux".to_owned())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::cell::RefCell;
    use std::fs::File;
    use std::io;
    use std::mem::ManuallyDrop;
    use std::os::unix::fs::FileExt;

    use crate::report::simple::IoStatistics;
    use mlprof_events::forking::forks;

    const PATH: &str = "/proc/thread-self/io";
    /// Buffer size in bytes. The file has seven lines, each with a name and a number of at most 20
    /// digits.
    const TEXT_BYTES: usize = 512;

    thread_local! {
        static READER: RefCell<Option<io::Result<Reader>>> = const { RefCell::new(None) };
    }

    /// Returns the bytes that the calling thread has read and written since it began, without the
    /// bytes added by reading these counters. The error is a sentence that gives the reason.
    ///
    /// *Cost*: one system call. The first call on a thread also opens a file, which stays open
    /// until the thread ends.
    pub(in crate::simple::counters) fn read() -> Result<IoStatistics, String> {
        let read = READER.try_with(|reader| {
            let mut reader = reader.borrow_mut();
            match reader.get_or_insert_with(Reader::open) {
                Ok(reader) => reader.read().map_err(|error| explain(&error)),
                Err(error) => Err(explain(error)),
            }
        });
        read.unwrap_or_else(|_| Err("an exiting thread has no counters".into()))
    }

    fn explain(error: &io::Error) -> String {
        format!("bytes read and written are incomplete: cannot read {PATH}: {error}")
    }

    struct Reader {
        /// Open counter file. A program that closes unknown descriptors may reuse its number for a
        /// file of its own. In that case the descriptor must not be closed here.
        file: ManuallyDrop<File>,
        /// Number of [forks](forks) before the file was opened. In a forked child, an inherited
        /// file belongs to a thread of the parent.
        forks: u32,
        /// Total bytes returned by this thread's own readings. The system also counts those, except
        /// for the reading in progress.
        own: u64,
    }

    impl Reader {
        fn open() -> io::Result<Self> {
            Ok(Self { file: ManuallyDrop::new(File::open(PATH)?), forks: forks(), own: 0 })
        }

        /// Reads the file's text. Returns an error if the text does not have the expected
        /// beginning, because the descriptor may now be a file of the program's. The read does not
        /// move any file position.
        fn text(&self, buffer: &mut [u8; TEXT_BYTES]) -> io::Result<usize> {
            let length = self.file.read_at(buffer, 0)?;
            if buffer[..length].starts_with(b"rchar: ") {
                Ok(length)
            } else {
                Err(io::ErrorKind::InvalidData.into())
            }
        }

        fn read(&mut self) -> io::Result<IoStatistics> {
            let mut buffer = [0; TEXT_BYTES];
            let is_inherited = self.forks != forks();
            let read = if is_inherited { None } else { self.text(&mut buffer).ok() };
            let length = match read {
                Some(length) => length,
                None => {
                    let own = if is_inherited { 0 } else { self.own };
                    let mut anew = Self::open()?;
                    anew.own = own;
                    *self = anew;
                    self.text(&mut buffer)?
                }
            };
            let mut counters = parse(&buffer[..length]);
            counters.read_bytes = counters.read_bytes.saturating_sub(self.own);
            self.own += length as u64;
            Ok(counters)
        }
    }

    impl Drop for Reader {
        fn drop(&mut self) {
            if self.text(&mut [0; TEXT_BYTES]).is_ok() {
                // SAFETY: the file is dropped once, in this destructor, and is not used afterwards.
                unsafe { ManuallyDrop::drop(&mut self.file) };
            }
        }
    }

    /// Parses the counters. Missing ones are 0.
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
        use crate::report::simple::IoStatisticsParts;

        #[test]
        fn the_four_counters_are_told_from_the_others() {
            let text = "rchar: 1\nwchar: 22\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\n\
                        write_bytes: 8192\ncancelled_write_bytes: 7\n";
            let expected = IoStatisticsParts {
                read_bytes: 1,
                written_bytes: 22,
                storage_read_bytes: 4096,
                storage_written_bytes: 8192,
            }
            .build();
            assert_eq!(parse(text.as_bytes()), expected);
            assert_eq!(parse(b"garbage\xff\nrchar: x"), IoStatistics::default());
        }

        /// Simulates a program that has closed all descriptors and then opened files of its own.
        #[test]
        fn a_number_that_is_the_programs_by_now_is_neither_believed_nor_closed() {
            use std::os::fd::AsRawFd;
            let mut reader = Reader::open().expect("Linux");
            let first = reader.read().expect("Linux");
            let (number, own) = (reader.file.as_raw_fd(), tempfile::tempfile().expect("a file"));
            // SAFETY: both descriptors are open, and only the reader uses `number`.
            assert_eq!(unsafe { libc::dup2(own.as_raw_fd(), number) }, number);
            assert!(reader.read().expect("opened anew").read_bytes >= first.read_bytes);
            assert_ne!(reader.file.as_raw_fd(), number);
            // SAFETY: `F_GETFD` only queries the descriptor's flags.
            assert_ne!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1, "it is still open");
            // SAFETY: `number` is open, and no other code uses it any more.
            unsafe { libc::close(number) };
        }

        /// Checks that the system counts the profiler's own readings and that exactly those bytes
        /// are subtracted.
        #[test]
        fn readings_do_not_count_themselves() {
            let system = |counter: &str| -> u64 {
                let mut buffer = [0; 512];
                // The file is opened here, so that no bytes are subtracted.
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
