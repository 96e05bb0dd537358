//! The coordinates of a rank in a job's mesh: data, tensor, pipeline, … parallel.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use gpumem_capture::ProcessKey;
use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::Replay;

/// Names of dimensions along which ranks do the same work on different data: peers differ only in these.
const DATA: &[&str] = &[
    "d",
    "data",
    "data_parallel",
    "dp",
    "ddp",
    "fsdp",
    "hsdp",
    "dp_shard",
    "dp_replicate",
    "replicate",
    "shard",
    "batch",
];

/// Coordinates of a rank in the mesh of its job: its index in each dimension, by the dimension's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Coordinates(pub BTreeMap<String, u64>);

impl Coordinates {
    /// The coordinates of a capture's rank; `None` if the capture does not have them.
    pub fn of(replay: &Replay) -> Option<Self> {
        Self::parse(replay.names.fact(ProcessKey::COORDINATES)?)
    }

    /// The coordinates in a text such as `dp=1,pp=0`; `None` if it has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let read = gpumem_capture::Coordinates::parse(text)?;
        let all = read.iter().map(|(name, at)| (name.to_owned(), at));
        Some(Self(all.collect()))
    }

    /// The coordinates without the dimensions in which peers differ.
    pub fn of_peers(&self) -> Self {
        let kept = self.0.iter();
        let kept = kept.filter(|(name, _)| !DATA.contains(&name.as_str()));
        Self(kept.map(|(name, at)| (name.clone(), *at)).collect())
    }
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, at)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{name}={at}")?;
        }
        Ok(())
    }
}

/// A mesh of ranks: its dimensions with their sizes. The last dimension varies fastest, as in PyTorch's DeviceMesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh(Vec<(String, u64)>);

impl Mesh {
    /// The number of ranks in the mesh.
    pub fn size(&self) -> u64 {
        self.0.iter().map(|(_, size)| size).product()
    }

    /// The coordinates of a rank; `None` if it is outside the mesh.
    pub fn at(&self, rank: u64) -> Option<Coordinates> {
        let mut left = rank;
        let mut found = BTreeMap::new();
        for (name, size) in self.0.iter().rev() {
            found.insert(name.clone(), left % size);
            left /= size;
        }
        (left == 0).then_some(Coordinates(found))
    }
}

impl FromStr for Mesh {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = gpumem_capture::Coordinates::parse(text);
        let read = read.ok_or(
            "expected dimensions and their sizes, such as pp=2,dp=4,tp=2; the last one varies fastest",
        )?;
        let sizes: Vec<_> = read
            .iter()
            .map(|(name, size)| (name.to_owned(), size))
            .collect();
        let total = sizes
            .iter()
            .try_fold(1u64, |all, (_, size)| all.checked_mul(*size));
        match total {
            None => Err("it has too many ranks".into()),
            Some(0) => Err("a dimension needs at least one rank".into()),
            Some(_) => Ok(Self(sizes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_dimension_of_a_mesh_runs_fastest() {
        let mesh: Mesh = "pp=2,dp=2,tp=4".parse().unwrap();
        assert_eq!(mesh.size(), 16);
        assert_eq!(mesh.at(0).unwrap().to_string(), "dp=0,pp=0,tp=0");
        assert_eq!(mesh.at(13).unwrap().to_string(), "dp=1,pp=1,tp=1");
        assert_eq!(mesh.at(16), None);
    }

    #[test]
    fn peers_differ_in_their_data_alone() {
        let mesh: Mesh = "pp=2,dp_replicate=2,dp_shard=4,tp=2".parse().unwrap();
        assert_eq!(mesh.at(31).unwrap().of_peers().to_string(), "pp=1,tp=1");
        let mesh: Mesh = "dp=2".parse().unwrap();
        assert_eq!(mesh.at(1).unwrap().of_peers(), Coordinates::default());
    }

    #[test]
    fn what_is_no_mesh_is_refused() {
        for wrong in [
            "",
            "pp",
            "pp=0",
            "pp=2,pp=2",
            "PP=2",
            "pp=-1",
            "pp=2,,dp=1",
            "a=99999999999,b=99999999999",
        ] {
            assert!(wrong.parse::<Mesh>().is_err(), "{wrong}");
        }
    }
}
