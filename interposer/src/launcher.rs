//! A process's place in a job, from the environment variables of launchers and schedulers.
//!
//! Sources of the names: torchrun's and DeepSpeed's launchers, Ray Train's PyTorch backend, Open MPI's page of environment
//! variables, PMIx, Hydra (MPICH, Intel MPI), MVAPICH, Slurm's srun(1), sbatch(1) and its plugin `mpi/cray_shasta`, HPE's
//! PALS, IBM's jsrun, Flux's shell. OMPI_COMM_WORLD_NODE_RANK is not a node's number: it counts processes on one node.

use std::ffi::OsString;

/// A process's place among the processes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) rank: u64,
    pub(crate) world_size: Option<u64>,
}

/// The rank and the job of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) rank: Option<Rank>,
    /// The rank among those on its node.
    pub(crate) local_rank: Option<u64>,
    /// The number of the node.
    pub(crate) node_rank: Option<u64>,
    /// Ids of the job, as in [`gpumem_capture::ProcessKey::JOB`].
    pub(crate) job: Option<String>,
    /// The number of restarts of the ranks by the launcher.
    pub(crate) restarts: Option<u64>,
    /// The number of times that the scheduler has requeued the job.
    pub(crate) requeues: Option<u64>,
}

/// The variables of one kind of launcher.
struct Launcher {
    rank: &'static str,
    world_size: &'static str,
    local_rank: &'static [&'static str],
    node_rank: &'static [&'static str],
    /// The variable with the id of one launch, and the word before it.
    launch: Option<(&'static str, &'static str)>,
}

const fn launcher(
    rank: &'static str,
    world_size: &'static str,
    local_rank: &'static [&'static str],
) -> Launcher {
    Launcher {
        rank,
        world_size,
        local_rank,
        node_rank: &[],
        launch: None,
    }
}

/// PyTorch's own variables, which torchrun, DeepSpeed and Ray Train set for each rank.
const PYTORCH: &str = "RANK";
const SLURM: &str = "SLURM_PROCID";

/// Most specific first.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        node_rank: &["GROUP_RANK", "NODE_RANK", "CROSS_RANK"],
        ..launcher(PYTORCH, "WORLD_SIZE", &["LOCAL_RANK"])
    },
    Launcher {
        launch: Some(("pmix", "PMIX_NAMESPACE")),
        ..launcher(
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            &["OMPI_COMM_WORLD_LOCAL_RANK"],
        )
    },
    Launcher {
        launch: Some(("pmix", "PMIX_NAMESPACE")),
        ..launcher("PMIX_RANK", "PMIX_SIZE", &["PMIX_LOCAL_RANK"])
    },
    launcher(
        "PMI_RANK",
        "PMI_SIZE",
        &["MPI_LOCALRANKID", "PMI_LOCAL_RANK"],
    ),
    launcher(
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        &["MV2_COMM_WORLD_LOCAL_RANK"],
    ),
    launcher(
        "MVP_COMM_WORLD_RANK",
        "MVP_COMM_WORLD_SIZE",
        &["MVP_COMM_WORLD_LOCAL_RANK"],
    ),
    Launcher {
        node_rank: &["PALS_NODEID"],
        launch: Some(("pals", "PALS_APID")),
        ..launcher("PALS_RANKID", "PMI_SIZE", &["PALS_LOCAL_RANKID"])
    },
    launcher(
        "JSM_NAMESPACE_RANK",
        "JSM_NAMESPACE_SIZE",
        &["JSM_NAMESPACE_LOCAL_RANK"],
    ),
    launcher("FLUX_TASK_RANK", "FLUX_JOB_SIZE", &["FLUX_TASK_LOCAL_ID"]),
    Launcher {
        node_rank: &["SLURM_NODEID"],
        ..launcher(SLURM, "SLURM_NTASKS", &["SLURM_LOCALID"])
    },
];

/// Variables of schedulers with the id of a job, and the word before it. All processes of the job inherit these.
const SCHEDULERS: &[(&str, &str)] = &[
    ("slurm", "SLURM_JOB_ID"),
    ("pbs", "PBS_JOBID"),
    ("lsf", "LSB_JOBID"),
    ("flux", "FLUX_JOB_ID"),
    ("ray", "RAY_JOB_ID"),
];

/// Longest id of a job.
const LONGEST: usize = 128;

/// Reads the environment through `get`.
pub(crate) fn identity(get: impl Fn(&str) -> Option<OsString>) -> Identity {
    let number = |name: &str| get(name)?.to_str()?.trim().parse::<u64>().ok();
    let rank_by = |of: &Launcher| {
        let (rank, world_size) = (number(of.rank)?, number(of.world_size));
        // A batch job of one task (an interactive Slurm shell, for example) has no ranks.
        let is_one = of.rank != PYTORCH && world_size == Some(1);
        (!is_one).then_some(Rank { rank, world_size })
    };
    let given = LAUNCHERS.iter().find_map(|of| Some((of, rank_by(of)?)));
    let (by, rank) = given.unzip();
    // An inner launcher has separate numbers: values that are missing in the outer one are taken only from launchers
    // that count the same ranks.
    let agrees = |of: &&Launcher| {
        let (Some(rank), Some(other)) = (&rank, rank_by(of)) else {
            return false;
        };
        let sizes = rank.world_size.zip(other.world_size);
        rank.rank == other.rank && sizes.is_none_or(|(size, other)| size == other)
    };
    let first = |of: fn(&Launcher) -> &'static [&'static str]| {
        let mut names = LAUNCHERS.iter().filter(agrees).flat_map(of);
        names.find_map(|name| number(name))
    };
    Identity {
        local_rank: first(|of| of.local_rank),
        node_rank: first(|of| of.node_rank),
        job: job(&get, by),
        restarts: number("TORCHELASTIC_RESTART_COUNT"),
        requeues: number("SLURM_RESTART_COUNT"),
        rank,
    }
}

/// The job's ids. A launch has an id only if it counts the ranks: torchrun may run below a launch by node.
fn job(get: &impl Fn(&str) -> Option<OsString>, by: Option<&Launcher>) -> Option<String> {
    let value = |name: &str| {
        let value = get(name)?.to_string_lossy().trim().to_owned();
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
        let plain = value.chars().map(|c| if is_plain(c) { c } else { '_' });
        Some(plain.take(LONGEST).collect::<String>()).filter(|value| !value.is_empty())
    };
    let mut words: Vec<String> = Vec::new();
    // "none" is torchrun's default.
    if let Some(run) = value("TORCHELASTIC_RUN_ID").filter(|run| run != "none") {
        words.push(format!("torchrun:{run}"));
    }
    if let Some((word, name)) = by.and_then(|by| by.launch)
        && let Some(launch) = value(name)
    {
        words.push(format!("{word}:{launch}"));
    }
    for (word, name) in SCHEDULERS {
        let Some(id) = value(name) else { continue };
        let is_step = *word == "slurm" && by.is_some_and(|by| by.rank == SLURM);
        match value("SLURM_STEP_ID").filter(|_| is_step) {
            Some(step) => words.push(format!("{word}:{id}.{step}")),
            None => words.push(format!("{word}:{id}")),
        }
    }
    // Kubernetes does not set an id of a job: manifests do, by these variables. Elsewhere JOB_NAME has no fixed
    // meaning.
    if get("KUBERNETES_SERVICE_HOST").is_some()
        && let Some(name) = value("JOBSET_NAME").or_else(|| value("JOB_NAME"))
    {
        words.push(format!("kubernetes:{name}"));
    }
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Identity {
        identity(|name| {
            let found = pairs.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| value.into())
        })
    }

    /// Rank, world size, local rank and node.
    fn numbers(pairs: &[(&str, &str)]) -> [Option<u64>; 4] {
        let of = of(pairs);
        let rank = of.rank.as_ref();
        [
            rank.map(|rank| rank.rank),
            rank.and_then(|rank| rank.world_size),
            of.local_rank,
            of.node_rank,
        ]
    }

    const TORCHRUN: &[(&str, &str)] = &[
        ("RANK", "11"),
        ("WORLD_SIZE", "16"),
        ("LOCAL_RANK", "3"),
        ("GROUP_RANK", "1"),
        ("TORCHELASTIC_RUN_ID", "run 7"),
        ("TORCHELASTIC_RESTART_COUNT", "2"),
    ];
    const SRUN: &[(&str, &str)] = &[
        ("SLURM_PROCID", "1"),
        ("SLURM_NTASKS", "2"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NODEID", "1"),
        ("SLURM_JOB_ID", "4711"),
        ("SLURM_STEP_ID", "5"),
        ("SLURM_RESTART_COUNT", "1"),
    ];

    #[test]
    fn each_launcher_is_known() {
        let known = |rank, world_size, local_rank, node_rank: Option<&'static str>| {
            let mut pairs = vec![(rank, "6"), (world_size, "8"), (local_rank, "2")];
            pairs.extend(node_rank.map(|name| (name, "1")));
            let node = node_rank.map(|_| 1);
            assert_eq!(numbers(&pairs), [Some(6), Some(8), Some(2), node], "{rank}");
        };
        known("RANK", "WORLD_SIZE", "LOCAL_RANK", Some("GROUP_RANK"));
        known("RANK", "WORLD_SIZE", "LOCAL_RANK", Some("NODE_RANK"));
        known("RANK", "WORLD_SIZE", "LOCAL_RANK", Some("CROSS_RANK"));
        let ompi = "OMPI_COMM_WORLD_LOCAL_RANK";
        known("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ompi, None);
        known("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", None);
        known("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", None);
        known("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", None);
        let mv2 = "MV2_COMM_WORLD_LOCAL_RANK";
        known("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", mv2, None);
        let mvp = "MVP_COMM_WORLD_LOCAL_RANK";
        known("MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE", mvp, None);
        let pals = "PALS_LOCAL_RANKID";
        known("PALS_RANKID", "PMI_SIZE", pals, Some("PALS_NODEID"));
        let jsm = "JSM_NAMESPACE_LOCAL_RANK";
        known("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", jsm, None);
        known(
            "FLUX_TASK_RANK",
            "FLUX_JOB_SIZE",
            "FLUX_TASK_LOCAL_ID",
            None,
        );
        let node = Some("SLURM_NODEID");
        known("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", node);
    }

    #[test]
    fn one_task_is_no_rank_unless_pytorch_counts_it() {
        let one = [
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
            ("SLURM_LOCALID", "0"),
        ];
        assert_eq!(numbers(&one), [None; 4]);
        let pals = [("PALS_RANKID", "0"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")];
        assert_eq!(numbers(&pals), [None; 4]);
        let pytorch = [("RANK", "0"), ("WORLD_SIZE", "1")];
        assert_eq!(numbers(&pytorch), [Some(0), Some(1), None, None]);
        assert_eq!(
            numbers(&[("RANK", "first"), ("LOCAL_RANK", "0")]),
            [None; 4]
        );
    }

    #[test]
    fn numbers_come_only_from_launchers_that_count_the_same_ranks() {
        // torchrun below srun, one task a node.
        let both = [TORCHRUN, SRUN].concat();
        assert_eq!(numbers(&both), [Some(11), Some(16), Some(3), Some(1)]);
        let without = |name| both.iter().copied().filter(move |(n, _)| *n != name);
        let no_node: Vec<_> = without("GROUP_RANK").collect();
        assert_eq!(numbers(&no_node)[3], None);
        // The same rank by accident, of another number of ranks.
        let mut other = no_node.clone();
        other.extend([("SLURM_PROCID", "11")]);
        other.retain(|pair| *pair != ("SLURM_PROCID", "1"));
        assert_eq!(numbers(&other)[3], None);
        // As many ranks, in another order.
        let order = [&[("RANK", "0"), ("WORLD_SIZE", "2")], SRUN].concat();
        assert_eq!(numbers(&order), [Some(0), Some(2), None, None]);
        // srun --mpi=pmix.
        let pmix = [&[("PMIX_RANK", "1")], SRUN].concat();
        assert_eq!(numbers(&pmix), [Some(1), None, Some(0), Some(1)]);
        // A program's own `export RANK=$SLURM_PROCID`.
        let exported = [&[("RANK", "1"), ("WORLD_SIZE", "2")], SRUN].concat();
        assert_eq!(numbers(&exported), [Some(1), Some(2), Some(0), Some(1)]);
    }

    #[test]
    fn jobs_have_the_names_that_all_ranks_share() {
        let job = |pairs: &[&[(&str, &str)]]| of(&pairs.concat()).job;
        let named = |text: &str| Some(text.to_owned());
        assert_eq!(job(&[TORCHRUN]), named("torchrun:run_7"));
        assert_eq!(job(&[SRUN]), named("slurm:4711.5"));
        assert_eq!(job(&[TORCHRUN, SRUN]), named("torchrun:run_7 slurm:4711"));
        assert_eq!(job(&[&[("TORCHELASTIC_RUN_ID", "none")]]), None);
        assert_eq!(job(&[&[("TORCHELASTIC_RUN_ID", " ")]]), None);
        let ompi = [
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("PMIX_NAMESPACE", "prterun-a-7@1"),
        ];
        assert_eq!(job(&[&ompi]), named("pmix:prterun-a-7@1"));
        assert_eq!(job(&[TORCHRUN, &ompi]), named("torchrun:run_7"));
        let pals = [
            ("PALS_RANKID", "3"),
            ("PALS_APID", "ab-1"),
            ("PBS_JOBID", "9.pbs"),
        ];
        assert_eq!(job(&[&pals]), named("pals:ab-1 pbs:9.pbs"));
        assert_eq!(job(&[&[("LSB_JOBID", "8")]]), named("lsf:8"));
        assert_eq!(job(&[&[("FLUX_JOB_ID", "f8")]]), named("flux:f8"));
        assert_eq!(job(&[&[("RAY_JOB_ID", "01000000")]]), named("ray:01000000"));
        assert_eq!(job(&[&[("JOB_NAME", "x")]]), None);
        let pod = [
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("JOB_NAME", "bert"),
        ];
        assert_eq!(job(&[&pod]), named("kubernetes:bert"));
        assert_eq!(
            job(&[&pod, &[("JOBSET_NAME", "set")]]),
            named("kubernetes:set")
        );
    }

    #[test]
    fn restarts_are_counted_apart_from_requeues() {
        let both = of(&[TORCHRUN, SRUN].concat());
        assert_eq!((both.restarts, both.requeues), (Some(2), Some(1)));
        assert_eq!(of(&[]), Identity::default());
    }
}
