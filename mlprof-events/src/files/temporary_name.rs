//! Names of temporary files, by which processes recognise each other's files.

use std::fs;
use std::hash::Hasher;
use std::sync::OnceLock;

use crate::forking::made_once;

const PREFIX: &str = ".mlprof-";
const ENDING: &str = ".tmp";

/// Returns the name of a temporary entry.
pub(super) fn with_number(machine: u32, number: u64) -> String {
    format!("{PREFIX}{machine:08x}-{number:016x}{ENDING}")
}

/// Returns an id of this machine since its last boot. Processes with the same id see each other's
/// locks. Returns 0 if the machine has no such id.
pub(super) fn this_machine() -> u32 {
    static MACHINE: OnceLock<u32> = OnceLock::new();
    *made_once(&MACHINE, || {
        let Ok(boot) = fs::read("/proc/sys/kernel/random/boot_id") else { return 0 };
        let mut hasher = rustc_hash::FxHasher::default();
        hasher.write(&boot);
        (hasher.finish() as u32).max(1)
    })
}

/// Parses the machine and the number from the name of a temporary entry.
pub(super) fn machine_and_number_of(name: &str) -> Option<(u32, u64)> {
    let (machine, number) = name.strip_prefix(PREFIX)?.strip_suffix(ENDING)?.split_once('-')?;
    let are_numbers = machine.len() == 8 && number.len() == 16;
    let number = u64::from_str_radix(number, 16).ok().filter(|_| are_numbers)?;
    Some((u32::from_str_radix(machine, 16).ok()?, number))
}

pub(super) fn machine_of(name: &str) -> Option<u32> {
    machine_and_number_of(name).map(|(machine, _)| machine)
}

/// Returns `true` for the name of an unfinished file or of a claim, which is not a result.
pub fn is_temporary(name: &str) -> bool {
    machine_of(name).is_some()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_taken_for_ours() {
        assert_eq!(machine_of(".mlprof-0000002a-0123456789abcdef.tmp"), Some(42));
        for name in [
            ".mlprof-2a-0123456789abcdef.tmp",
            ".mlprof-0000002a-0123456789abcdef",
            ".mlprof-0000002a-0123456789abcdeg.tmp",
            "mlprof-0000002a-0123456789abcdef.tmp",
            "fit-run.txt",
        ] {
            assert_eq!(machine_of(name), None, "{name}");
        }
    }
}
