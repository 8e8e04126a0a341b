//! Identifies the processes that belong to the same training.

use mlprof_events::environment::variable;
use std::sync::OnceLock;

/// Environment variables that are equal in all processes of one training and differ between
/// trainings. They are set by torchrun, by scripts with the same conventions, and by Open MPI.
const VARIABLES: [&str; 4] =
    ["TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE"];

/// SLURM's variables for the tasks of a job step. The job id alone is not enough, because a job may
/// run several trainings.
const SLURM: [&str; 2] = ["SLURM_STEP_ID", "SLURM_JOB_ID"];

/// Launch identity when the process began to listen. Background threads do not read the
/// environment.
static LAUNCH: OnceLock<Option<String>> = OnceLock::new();

/// Reads the launch identity. Must be called where reading the environment is safe.
pub(crate) fn remember() {
    LAUNCH.get_or_init(|| {
        read(|name| variable(name).map(|value| value.to_string_lossy().into_owned()))
    });
}

/// Returns the launcher's variables, if any are set.
pub(crate) fn launch() -> Option<String> {
    LAUNCH.get().cloned().flatten()
}

/// Returns the id of the parent process. Returns `None` if the parent is in another PID namespace,
/// as for a container's first process. The value of a forked child differs from that of its parent.
pub(crate) fn parent() -> Option<u32> {
    // SAFETY: `getppid` takes no arguments and cannot fail.
    u32::try_from(unsafe { libc::getppid() }).ok().filter(|parent| *parent > 0)
}

fn read(lookup: impl Fn(&str) -> Option<String>) -> Option<String> {
    let said = |name: &&str| {
        let value = lookup(name).filter(|value| !value.trim().is_empty())?;
        Some(format!("{name}={value}"))
    };
    let is_step = said(&SLURM[0]).is_some();
    let slurm: &[&str] = if is_step { &SLURM } else { &[] };
    let all: Vec<_> = VARIABLES.iter().chain(slurm).filter_map(said).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(variables: &[(&str, &str)]) -> Option<String> {
        let of = |name: &str| variables.iter().find(|(known, _)| *known == name);
        read(|name| of(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_launcher_says_which_training_it_is() {
        assert_eq!(
            launch(&[("RANK", "1"), ("WORLD_SIZE", "2")]),
            None,
            "differs, or is too common"
        );
        let torchrun = launch(&[("MASTER_PORT", "29500"), ("MASTER_ADDR", "a"), ("RANK", "1")]);
        assert_eq!(torchrun.as_deref(), Some("MASTER_ADDR=a MASTER_PORT=29500"));
        assert_eq!(launch(&[("MASTER_ADDR", " ")]), None);
        assert_eq!(launch(&[("SLURM_JOB_ID", "5")]), None, "a shell of salloc");
        let step = launch(&[("SLURM_JOB_ID", "5"), ("SLURM_STEP_ID", "0")]);
        assert_eq!(step.as_deref(), Some("SLURM_STEP_ID=0 SLURM_JOB_ID=5"));
    }
}
