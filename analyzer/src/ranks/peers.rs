//! Which ranks are compared with which.

use std::collections::BTreeMap;

use super::coordinates::Coordinates;

/// A group of this size is too small to find out which rank differs.
const FEW: usize = 3;

/// Ranks by the coordinates that they share. A group of fewer than three ranks is merged with the groups that differ
/// only in the last of its dimensions, and so on, as long as the stage of the pipeline is the same.
pub fn groups(ranks: &[(u64, Coordinates)]) -> BTreeMap<Coordinates, Vec<u64>> {
    let mut groups = by(ranks.iter().map(|(rank, at)| (*rank, at.of_peers())));
    loop {
        let small = groups
            .iter()
            .filter(|(at, of)| of.len() < FEW && joinable(at).is_some());
        let Some(name) = small.filter_map(|(at, _)| joinable(at)).next() else {
            return groups;
        };
        // All groups lose the dimension: those that keep it would not be comparable.
        groups = by(groups.into_iter().flat_map(|(mut at, ranks)| {
            at.0.remove(&name);
            ranks.into_iter().map(move |rank| (rank, at.clone()))
        }));
    }
}

/// The last dimension along which ranks hold similar memory: any except the pipeline's.
fn joinable(at: &Coordinates) -> Option<String> {
    let mut names = at.0.keys().rev();
    let name = names.find(|name| !["pp", "pipe", "pipeline", "stage"].contains(&name.as_str()))?;
    Some(name.clone())
}

fn by(ranks: impl Iterator<Item = (u64, Coordinates)>) -> BTreeMap<Coordinates, Vec<u64>> {
    let mut groups: BTreeMap<Coordinates, Vec<u64>> = BTreeMap::new();
    for (rank, at) in ranks {
        groups.entry(at).or_default().push(rank);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::coordinates::Mesh;
    use super::*;

    fn groups_of(mesh: &str) -> Vec<(String, usize)> {
        let mesh: Mesh = mesh.parse().unwrap();
        let ranks: Vec<_> = (0..mesh.size())
            .map(|rank| (rank, mesh.at(rank).unwrap()))
            .collect();
        let found = groups(&ranks);
        assert_eq!(
            found.values().map(Vec::len).sum::<usize>() as u64,
            mesh.size()
        );
        found
            .into_iter()
            .map(|(at, ranks)| (at.to_string(), ranks.len()))
            .collect()
    }

    fn named(names: &[&str], each: usize) -> Vec<(String, usize)> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), each))
            .collect()
    }

    #[test]
    fn peers_share_stage_and_slice() {
        assert_eq!(
            groups_of("pp=2,dp=4,tp=2"),
            named(&["pp=0,tp=0", "pp=0,tp=1", "pp=1,tp=0", "pp=1,tp=1"], 4)
        );
        assert_eq!(groups_of("dp=16"), named(&[""], 16));
    }

    #[test]
    fn few_are_put_together_but_never_over_stages() {
        assert_eq!(groups_of("pp=2,dp=2,tp=2"), named(&["pp=0", "pp=1"], 4));
        assert_eq!(
            groups_of("pp=4"),
            named(&["pp=0", "pp=1", "pp=2", "pp=3"], 1)
        );
    }
}
