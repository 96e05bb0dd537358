//! Which ranks are compared with which.

use std::collections::BTreeMap;

use super::coordinates::Coordinates;

/// A group of so few says nothing of which one of them differs.
const FEW: usize = 3;

/// Ranks by the coordinates that they share. A group of fewer than three ranks is put together with others: those that
/// differ in the last of its dimensions only, and so on, as long as the pipeline's stage is the same.
pub fn groups(ranks: &[(u64, Coordinates)]) -> BTreeMap<Coordinates, Vec<u64>> {
    let mut groups = by(ranks.iter().map(|(rank, at)| (*rank, at.of_peers())));
    loop {
        let small = groups
            .iter()
            .filter(|(at, of)| of.len() < FEW && joinable(at).is_some());
        let Some(name) = small.filter_map(|(at, _)| joinable(at)).next() else {
            return groups;
        };
        // All lose the dimension: groups that stay apart by it would not be comparable.
        groups = by(groups.into_iter().flat_map(|(mut at, ranks)| {
            at.0.remove(&name);
            ranks.into_iter().map(move |rank| (rank, at.clone()))
        }));
    }
}

/// A dimension along which ranks hold about the same: all but the pipeline's.
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
