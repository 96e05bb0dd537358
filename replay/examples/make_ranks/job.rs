//! The generated job and its ranks.

use std::ops::Range;

use gpumem_capture::{Coordinates, ProcessKey};

use super::plant::Plant;

/// The job to generate.
pub struct Job {
    /// The number of ranks.
    pub world: u64,
    /// The ranks to write.
    pub ranks: Range<u64>,
    /// Concurrent processes; 0: only this one.
    pub jobs: usize,
    per_node: u64,
    mesh: Vec<(String, u64)>,
    name: String,
    plants: Vec<(u64, Plant)>,
}

impl Job {
    /// Parses the options of the command line; the last one of a repeated option applies.
    pub fn parse(options: &[String]) -> Result<Self, String> {
        let mut job = Self {
            world: 0,
            ranks: 0..0,
            jobs: 2,
            per_node: 8,
            mesh: Vec::new(),
            name: "made:1".into(),
            plants: Vec::new(),
        };
        let mut ranks = None;
        for option in options.chunks(2) {
            let [name, value] = option else {
                return Err(format!("{} needs a value", option.join(" ")));
            };
            match name.as_str() {
                "--world" => job.world = number(value)?,
                "--ranks" => {
                    let (first, end) = value.split_once("..").ok_or("--ranks A..B")?;
                    ranks = Some(number(first)?..number(end)?);
                }
                "--per-node" => job.per_node = number(value)?.max(1),
                "--jobs" => job.jobs = number(value)? as usize,
                "--job" => job.name.clone_from(value),
                "--mesh" => {
                    let mesh = Coordinates::parse(value).ok_or("--mesh pp=2,dp=4")?;
                    job.mesh = mesh.iter().map(|(name, at)| (name.into(), at)).collect();
                }
                "--plant" => {
                    let (rank, what) = value.split_once(':').ok_or("--plant RANK:WHAT")?;
                    job.plants.push((number(rank)?, what.parse()?));
                }
                other => return Err(format!("{other} is no option")),
            }
        }
        job.ranks = ranks.unwrap_or(0..job.world);
        let sizes = job.mesh.iter().map(|(_, size)| *size).product::<u64>();
        if job.world == 0 || job.ranks.end > job.world {
            return Err("--world says how many ranks there are".into());
        }
        if !job.mesh.is_empty() && sizes != job.world {
            return Err(format!("--mesh has {sizes} ranks, --world {}", job.world));
        }
        Ok(job)
    }

    /// The changes to make in a rank.
    pub fn plants(&self, rank: u64) -> Vec<Plant> {
        let of = self.plants.iter().filter(|(of, _)| *of == rank);
        of.map(|(_, plant)| plant.clone()).collect()
    }

    /// The rank's node, and its local rank there.
    pub fn place(&self, rank: u64) -> (u64, u64) {
        (rank / self.per_node, rank % self.per_node)
    }

    /// Facts of a rank's process, by their keys.
    pub fn facts(&self, rank: u64) -> Vec<(&'static str, String)> {
        let (node, local) = self.place(rank);
        let mut facts = vec![
            (ProcessKey::RANK, rank.to_string()),
            (ProcessKey::WORLD_SIZE, self.world.to_string()),
            (ProcessKey::LOCAL_RANK, local.to_string()),
            (ProcessKey::NODE_RANK, node.to_string()),
            (ProcessKey::HOST, format!("node{node:04}")),
            (ProcessKey::JOB, self.name.clone()),
        ];
        if !self.mesh.is_empty() {
            facts.push((ProcessKey::COORDINATES, self.coordinates(rank)));
        }
        facts
    }

    fn coordinates(&self, rank: u64) -> String {
        let mut left = rank;
        let mut found = Vec::new();
        for (name, size) in self.mesh.iter().rev() {
            found.push(format!("{name}={}", left % size));
            left /= size;
        }
        found.reverse();
        found.join(",")
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
