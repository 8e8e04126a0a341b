//! Datagrams in the format of libkineto and dynolog: a header `{u64 size; char type[32]}` and a
//! body of `size` bytes, in native byte order. *Sources*: dynolog's `ipcfabric/FabricManager.h` and
//! `ipcfabric/Utils.h`.

use std::fs;

const TYPE_BYTES: usize = 32;
pub(super) const HEADER_BYTES: usize = size_of::<u64>() + TYPE_BYTES;

/// Config types of a request: `LibkinetoConfigType::ACTIVITIES`, or none.
pub(super) const ACTIVITIES: i32 = 2;
pub(super) const NOTHING: i32 = 0;

/// Maximum number of ancestors in a request.
const MOST_ANCESTORS: usize = 10;

/// Returns the datagram that registers this process: `LibkinetoContext`.
pub(super) fn context(device: i32, process: i32, job: i64) -> Vec<u8> {
    let mut body = device.to_ne_bytes().to_vec();
    body.extend(process.to_ne_bytes());
    body.extend(job.to_ne_bytes());
    message("ctxt", &body)
}

/// Returns the datagram that polls for a recording request: `LibkinetoRequest`.
pub(super) fn request(kinds: i32, processes: &[i32], job: i64) -> Vec<u8> {
    let mut body = kinds.to_ne_bytes().to_vec();
    // The list has at most eleven entries, so the cast is lossless.
    body.extend((processes.len() as i32).to_ne_bytes());
    body.extend(job.to_ne_bytes());
    processes.iter().for_each(|process| body.extend(process.to_ne_bytes()));
    message("req", &body)
}

fn message(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut message = (body.len() as u64).to_ne_bytes().to_vec();
    let mut name = [0; TYPE_BYTES];
    name[..kind.len()].copy_from_slice(kind.as_bytes());
    message.extend(name);
    message.extend(body);
    message
}

/// Datagram from the daemon.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// Confirms the registration of this process.
    Registered,
    /// Config of a recording; empty if there is no request.
    Config(&'a [u8]),
}

/// Parses a datagram. Returns an error message if it is malformed.
pub(super) fn understand(datagram: &[u8]) -> Result<Answer<'_>, String> {
    let Some((header, body)) = datagram.split_at_checked(HEADER_BYTES) else {
        return Err(format!("{} bytes are too short for a header", datagram.len()));
    };
    let (size, kind) = header.split_at(size_of::<u64>());
    let size = size.try_into().map_or(0, u64::from_ne_bytes);
    if size != body.len() as u64 {
        return Err(format!(
            "the header states {size} bytes of content, but {} follow",
            body.len()
        ));
    }
    let kind = kind.split(|byte| *byte == 0).next().unwrap_or_default();
    match kind {
        b"ctxt" => Ok(Answer::Registered),
        b"req" => Ok(Answer::Config(body)),
        _ => Err(format!("the message kind {:?} is unknown", String::from_utf8_lossy(kind))),
    }
}

/// Returns the ids of this process and its ancestors, nearest first, without process 1.
pub(super) fn ancestry() -> Vec<i32> {
    let own = std::process::id() as i32;
    let mut all = vec![own];
    let mut next = parent_of(own);
    while let Some(parent) = next.filter(|parent| *parent > 1 && all.len() <= MOST_ANCESTORS) {
        all.push(parent);
        next = parent_of(parent);
    }
    all
}

fn parent_of(process: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program name may contain parentheses and spaces, so fields are counted after the last
    // parenthesis.
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn datagrams_are_libkinetos_to_the_byte() {
        let mut expected = vec![16, 0, 0, 0, 0, 0, 0, 0, b'c', b't', b'x', b't'];
        expected.extend([0; 28]);
        expected.extend([0, 0, 0, 0, 0x67, 0x12, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(context(0, 0x1267, 7), expected);
        let mut expected = vec![24, 0, 0, 0, 0, 0, 0, 0, b'r', b'e', b'q'];
        expected.extend([0; 29]);
        expected.extend([2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(request(ACTIVITIES, &[5, 4], 0), expected);
    }

    #[test]
    fn answers_are_understood() {
        assert_eq!(understand(&message("ctxt", &1_i32.to_ne_bytes())), Ok(Answer::Registered));
        assert_eq!(understand(&message("req", b"")), Ok(Answer::Config(b"")));
        assert_eq!(understand(&message("req", b"A=1\n")), Ok(Answer::Config(b"A=1\n")));
    }

    #[test]
    fn invalid_replies_are_errors_without_reading_past_the_end() {
        let error = |datagram: &[u8]| understand(datagram).expect_err("junk");
        assert_eq!(error(b"hello"), "5 bytes are too short for a header");
        let mut huge = message("req", b"A=1");
        huge[..8].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(
            error(&huge),
            format!("the header states {} bytes of content, but 3 follow", u64::MAX)
        );
        assert_eq!(error(&message("", b"")), "the message kind \"\" is unknown");
        assert_eq!(error(&message("request", b"")), "the message kind \"request\" is unknown");
        let without_end =
            [8, 0, 0, 0, 0, 0, 0, 0].into_iter().chain([b'r'; 40]).collect::<Vec<_>>();
        assert!(error(&without_end).starts_with("the message kind \"rrrr"));
    }

    #[test]
    fn ancestors_are_told_from_the_nearest_on() {
        let all = ancestry();
        assert_eq!(all[0], std::process::id() as i32);
        // SAFETY: `getppid` takes no arguments and cannot fail.
        let parent = unsafe { libc::getppid() };
        assert_eq!(all.get(1).copied(), (parent > 1).then_some(parent));
        assert!(all.len() <= MOST_ANCESTORS + 1 && all.iter().skip(1).all(|it| *it > 1));
        assert_eq!(parent_of(-1), None);
    }

    proptest::proptest! {
        #[test]
        fn no_datagram_is_too_strange(datagram in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Ok(Answer::Config(body)) = understand(&datagram) {
                proptest::prop_assert_eq!(body.len() + HEADER_BYTES, datagram.len());
            }
        }
    }
}
