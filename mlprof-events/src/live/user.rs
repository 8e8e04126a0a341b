//! User ids of processes and owners of folders.

/// Returns the id of the effective user of this process.
pub fn own_user() -> u32 {
    // SAFETY: `geteuid` takes no arguments, changes no state and cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns `true` if `user` is the effective user of this process.
///
/// A user namespace shows all unmapped users with one id, 65534. A process that runs as that user
/// cannot distinguish its own files and peers from those of others. The function then returns
/// `false` for every user.
pub fn is_own_user(user: u32) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    user == own_user()
        && !is_shared(user, &read("/proc/self/uid_map"), &read("/proc/sys/kernel/overflowuid"))
}

/// Returns `true` if this id stands for several users, according to the namespace's map and the
/// system's id for unmapped users.
fn is_shared(user: u32, map: &str, unmapped: &str) -> bool {
    let unmapped = unmapped.trim().parse().unwrap_or(65534);
    let maps_all =
        map.lines().any(|line| line.split_ascii_whitespace().eq(["0", "0", "4294967295"]));
    // Systems without the file do not have user namespaces.
    user == unmapped && !map.is_empty() && !maps_all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_stands_for_all_unmapped_users_is_nobodys_own() {
        let (everybody, rootless) =
            ("         0          0 4294967295\n", "  0  1000  1\n 1 100000 65536\n");
        assert!(!is_shared(65534, everybody, "65534\n"), "the user nobody of a machine");
        assert!(is_shared(65534, rootless, "65534\n"));
        assert!(!is_shared(0, rootless, "65534\n") && !is_shared(1000, rootless, "65534\n"));
        assert!(is_shared(99, rootless, "99\n"), "the system's number can be changed");
        assert!(!is_shared(65534, "", ""), "there are no namespaces");
        assert!(is_own_user(own_user()) || own_user() == 65534);
        assert!(!is_own_user(own_user() + 1));
    }
}
