//! Names of the files of a dataset.

use crate::rows::TABLES;

/// The node's name if captures come from several nodes, or from an unknown one.
pub const SEVERAL: &str = "several";
/// The table that makes a part complete.
pub const RANKS: &str = "ranks";

/// A text as a name in a path: characters other than letters, digits, `.`, `_` and `-` become `-`.
pub fn name_of(text: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = text
        .chars()
        .map(|c| if kept(c) { c } else { '-' })
        .collect();
    if name.is_empty() { "-".into() } else { name }
}

/// A part: its files have the same name in the folders of all tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartName {
    /// The run, as a name.
    pub run: String,
    /// The node, as a name.
    pub node: String,
    /// The name of its files.
    pub part: String,
}

/// A file with a part's rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataFile {
    /// The part.
    pub of: PartName,
    /// The table.
    pub table: &'static str,
}

impl DataFile {
    /// Its path below the dataset.
    pub fn path(&self) -> String {
        let (PartName { run, node, part }, table) = (&self.of, self.table);
        format!("run={run}/table={table}/node={node}/{part}.parquet")
    }

    /// The file at a path; `None` if it has no data, or belongs to a table that this version does
    /// not know.
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let mut part_of = |prefix: &str| parts.next().and_then(|part| part.strip_prefix(prefix));
        let (run, table, node) = (part_of("run=")?, part_of("table=")?, part_of("node=")?);
        let part = part_of("")?.strip_suffix(".parquet")?;
        let known = TABLES.iter().find(|known| known.name == table)?;
        let is_data = parts.next().is_none() && !part.starts_with(['_', '.']);
        is_data.then(|| Self {
            of: PartName {
                run: run.into(),
                node: node.into(),
                part: part.into(),
            },
            table: known.name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back_as_what_they_were_made_of() {
        let file = DataFile {
            of: PartName {
                run: name_of("slurm 4711/a"),
                node: SEVERAL.into(),
                part: "00ff".into(),
            },
            table: "held",
        };
        assert_eq!(
            file.path(),
            "run=slurm-4711-a/table=held/node=several/00ff.parquet"
        );
        assert_eq!(DataFile::parse(&file.path()), Some(file.clone()));
        for other in [
            "run=a/table=held/node=b/_x.parquet",
            "run=a/table=held/node=b/.x.parquet",
            "run=a/table=later/node=b/x.parquet",
            "run=a/table=held/node=b/c/x.parquet",
            "_lock",
        ] {
            assert_eq!(DataFile::parse(other), None, "{other}");
        }
    }
}
