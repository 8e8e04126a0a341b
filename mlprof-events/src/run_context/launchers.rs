//! Environment variables by which launchers assign ranks to processes.

use super::RunContext;

/// Names of one launcher's variables.
struct Launcher {
    rank: &'static str,
    local_rank: &'static str,
    world_size: &'static str,
}

const LAUNCHERS: [Launcher; 3] = [
    Launcher { rank: "RANK", local_rank: "LOCAL_RANK", world_size: "WORLD_SIZE" },
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        world_size: "OMPI_COMM_WORLD_SIZE",
    },
    Launcher { rank: "PMI_RANK", local_rank: "MPI_LOCALRANKID", world_size: "PMI_SIZE" },
];

/// Returns the context given by the variables, and a sentence about a problem with them, if there
/// is one.
pub(super) fn read(lookup: impl Fn(&str) -> Option<String>) -> (RunContext, Option<String>) {
    let get = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
    let slurm = slurm(&get);
    let mut incomplete = None;
    for launcher in LAUNCHERS.iter().chain(&slurm) {
        match (get(launcher.rank), get(launcher.world_size)) {
            (Some(rank), Some(world_size)) => return launcher.understand(&rank, &world_size, get),
            (Some(rank), None) if rank.trim() != "0" => incomplete.get_or_insert_with(|| {
                let Launcher { rank: name, world_size, .. } = launcher;
                format!("{name} is {rank:?} but {world_size} is not set")
            }),
            (None, Some(world_size)) if world_size.trim() != "1" => {
                incomplete.get_or_insert_with(|| {
                    let Launcher { rank, world_size: name, .. } = launcher;
                    format!("{name} is {world_size:?} but {rank} is not set")
                })
            }
            _ => continue,
        };
    }
    (RunContext::default(), incomplete.map(|problem| single_process(&problem)))
}

/// Returns SLURM's variable names if `srun` started this process; see
/// [`RunContext::from_environment`].
fn slurm(get: &impl Fn(&str) -> Option<String>) -> Option<Launcher> {
    let is_interactive = matches!(get("SLURM_JOB_NAME").as_deref(), Some("bash" | "interactive"));
    let knows_its_size = get("SLURM_STEP_NUM_TASKS").is_some();
    let is_in_step = knows_its_size || get("SLURM_STEP_ID").is_some();
    let is_first = get("SLURM_PROCID").is_none_or(|rank| rank.trim() == "0");
    (!is_interactive && (is_in_step || !is_first)).then_some(Launcher {
        rank: "SLURM_PROCID",
        local_rank: "SLURM_LOCALID",
        world_size: if knows_its_size { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" },
    })
}

impl Launcher {
    fn understand(
        &self,
        rank: &str,
        world_size: &str,
        get: impl Fn(&str) -> Option<String>,
    ) -> (RunContext, Option<String>) {
        let (rank, world_size) = match (number(rank), number(world_size)) {
            (Some(rank), Some(world_size)) if rank < world_size => (rank, world_size),
            _ => {
                let problem =
                    format!("{} is {rank:?} and {} {world_size:?}", self.rank, self.world_size);
                return (RunContext::default(), Some(single_process(&problem)));
            }
        };
        let run = RunContext::default().with_rank(rank, world_size);
        let Some(said) = get(self.local_rank) else { return (run, None) };
        match number(&said).filter(|local_rank| *local_rank < world_size) {
            Some(local_rank) => (run.with_local_rank(local_rank), None),
            None => {
                let name = self.local_rank;
                let problem = format!(
                    "{name} is {said:?}, which is invalid for {world_size} processes, so the \
                     profiler uses this process's rank, {rank}, as its local rank."
                );
                (run, Some(problem))
            }
        }
    }
}

fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

fn single_process(problem: &str) -> String {
    format!(
        "{problem}, which is invalid, so the profiler treats this process as the only one of its \
         run (rank 0 of 1). Several such processes write to the same files; set RANK and \
         WORLD_SIZE for each."
    )
}

/// Returns a look-up function over the given variables, for tests.
pub(super) fn lookup_in(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    let variables: std::collections::HashMap<_, _> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    move |name| variables.get(name).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rank, local rank, world size, and `true` if there was a problem.
    fn of(variables: &[(&str, &str)]) -> (u32, u32, u32, bool) {
        let (run, problem) = read(lookup_in(variables));
        (run.rank, run.local_rank, run.world_size, problem.is_some())
    }

    const TORCHRUN: [(&str, &str); 3] = [("RANK", "5"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "8")];
    const OPEN_MPI: [(&str, &str); 3] = [
        ("OMPI_COMM_WORLD_RANK", "6"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
        ("OMPI_COMM_WORLD_SIZE", "9"),
    ];
    const MPICH: [(&str, &str); 3] =
        [("PMI_RANK", "7"), ("MPI_LOCALRANKID", "3"), ("PMI_SIZE", "10")];
    const SRUN: [(&str, &str); 5] = [
        ("SLURM_PROCID", "4"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NTASKS", "99"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NUM_TASKS", "11"),
    ];

    #[test]
    fn every_launcher_is_understood_and_the_inner_one_is_believed() {
        let all: Vec<_> = [&TORCHRUN[..], &OPEN_MPI, &MPICH, &SRUN].concat();
        let expected = [(5, 1, 8, false), (6, 2, 9, false), (7, 3, 10, false), (4, 0, 11, false)];
        for (launcher, expected) in [&TORCHRUN[..], &OPEN_MPI, &MPICH, &SRUN].iter().zip(expected) {
            assert_eq!(of(launcher), expected);
        }
        for (start, expected) in [0, 3, 6, 9].into_iter().zip(expected) {
            assert_eq!(of(&all[start..]), expected, "from {start}");
        }
        assert_eq!(of(&[]), (0, 0, 1, false));
    }

    #[test]
    fn a_local_rank_that_is_not_said_is_the_rank() {
        assert_eq!(of(&[("RANK", "3"), ("WORLD_SIZE", " 4\n")]), (3, 3, 4, false));
        let (run, problem) =
            read(lookup_in(&[("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "x")]));
        assert_eq!((run.rank, run.local_rank, run.world_size), (3, 3, 4));
        assert_eq!(
            problem.expect("a problem"),
            "LOCAL_RANK is \"x\", which is invalid for 4 processes, so the profiler uses this \
             process's rank, 3, as its local rank."
        );
        assert_eq!(of(&[("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "4")]), (3, 3, 4, true));
        assert_eq!(of(&[("LOCAL_RANK", "1")]), (0, 0, 1, false), "alone it says nothing");
    }

    #[test]
    fn inconsistent_ranks_mean_a_single_process_with_a_warning() {
        let cases: [(&str, &[(&str, &str)]); 8] = [
            ("RANK is \"4\" and WORLD_SIZE \"4\"", &[("RANK", "4"), ("WORLD_SIZE", "4")]),
            ("RANK is \"-1\" and WORLD_SIZE \"4\"", &[("RANK", "-1"), ("WORLD_SIZE", "4")]),
            ("RANK is \"x\" and WORLD_SIZE \"4\"", &[("RANK", "x"), ("WORLD_SIZE", "4")]),
            ("RANK is \"0\" and WORLD_SIZE \"0\"", &[("RANK", "0"), ("WORLD_SIZE", "0")]),
            (
                "RANK is \"1\" and WORLD_SIZE \"4294967296\"",
                &[("RANK", "1"), ("WORLD_SIZE", "4294967296")],
            ),
            ("RANK is \"3\" but WORLD_SIZE is not set", &[("RANK", "3"), ("WORLD_SIZE", "")]),
            ("WORLD_SIZE is \"8\" but RANK is not set", &[("WORLD_SIZE", "8")]),
            ("SLURM_PROCID is \"3\" but SLURM_NTASKS is not set", &[("SLURM_PROCID", "3")]),
        ];
        for (expected, variables) in cases {
            let (run, problem) = read(lookup_in(variables));
            assert_eq!(run, RunContext::default(), "{expected}");
            let problem = problem.unwrap_or_else(|| panic!("nothing said: {expected}"));
            assert!(
                problem.starts_with(&format!("{expected}, which is invalid, so ")),
                "{problem}"
            );
            assert!(!problem.contains('\n'));
        }
        assert_eq!(of(&[("RANK", "0")]), (0, 0, 1, false), "the first of nobody knows how many");
        assert_eq!(of(&[("WORLD_SIZE", "1")]), (0, 0, 1, false));
    }

    #[test]
    fn a_launcher_that_says_half_leaves_the_word_to_the_next() {
        let script = [&[("WORLD_SIZE", "11"), ("MASTER_ADDR", "node1")][..], &SRUN].concat();
        assert_eq!(of(&script), (4, 0, 11, false), "as many batch scripts export it");
        let wrong = [&[("RANK", "x"), ("WORLD_SIZE", "11")][..], &SRUN].concat();
        assert_eq!(of(&wrong), (0, 0, 1, true), "what is whole and wrong is not passed over");
    }

    #[test]
    fn a_job_of_slurm_without_tasks_is_a_single_process() {
        let job = [("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0"), ("SLURM_NTASKS", "4")];
        assert_eq!(of(&job), (0, 0, 1, false), "the batch script itself");
        assert_eq!(of(&job[2..]), (0, 0, 1, false), "a shell of an older salloc");
        let shell = [&job[..], &[("SLURM_STEP_ID", "4294967290"), ("SLURM_STEP_NUM_TASKS", "1")]];
        assert_eq!(of(&shell.concat()), (0, 0, 1, false), "a shell of a newer one");
        for name in ["bash", "interactive"] {
            let named = [&SRUN[..], &[("SLURM_JOB_NAME", name)]].concat();
            assert_eq!(of(&named), (0, 0, 1, false), "{name}");
        }
        let second = [("SLURM_PROCID", "1"), ("SLURM_LOCALID", "1"), ("SLURM_NTASKS", "4")];
        assert_eq!(of(&second), (1, 1, 4, false), "no batch script is the second of anything");
        let step = [&job[..], &[("SLURM_STEP_ID", "0")]].concat();
        assert_eq!(of(&step), (0, 0, 4, false), "srun's first, of a SLURM that says no step size");
    }
}
