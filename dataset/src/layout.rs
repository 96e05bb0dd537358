//! Names of the files of a dataset.

use crate::keys::Key;
use crate::rows::TABLES;

/// The node's name if captures come from several nodes, or from an unknown one.
pub const SEVERAL: &str = "several";
/// The table that makes a part complete.
pub const RANKS: &str = "ranks";
/// The folder of the list of parts.
pub const PARTS: &str = "_parts/";
const STAGED: &str = "/_staged/";

/// A text as a name in a path: characters other than letters, digits, `.`, `_` and `-` become `-`.
pub fn name_of(text: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = text
        .chars()
        .map(|c| if kept(c) { c } else { '-' })
        .collect();
    if name.is_empty() { "-".into() } else { name }
}

/// A file with a table's rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataFile {
    /// The run, as a name.
    pub run: String,
    /// The table.
    pub table: &'static str,
    /// The node, as a name.
    pub node: String,
    /// The part.
    pub part: String,
}

impl DataFile {
    /// Its path below the dataset.
    pub fn path(&self) -> String {
        let Self {
            run,
            table,
            node,
            part,
        } = self;
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
        (parts.next().is_none() && !part.starts_with('_')).then(|| Self {
            run: run.into(),
            table: known.name,
            node: node.into(),
            part: part.into(),
        })
    }
}

/// The path of the entry with this number.
pub fn entry_path(number: u64) -> String {
    format!("{PARTS}{number:08}.json")
}

/// A file of the list of parts: the number of its entry and its suffix (`json`, or a mark).
pub fn parse_entry(path: &str) -> Option<(u64, &str)> {
    let (number, what) = path.strip_prefix(PARTS)?.split_once('.')?;
    Some((number.parse().ok()?, what))
}

/// The path of a capture's staged rows.
pub fn staged_path(run: &str, capture: Key) -> String {
    format!("run={run}{STAGED}{:016x}.rows", capture.0)
}

/// The run and the capture of the staged rows at a path.
pub fn parse_staged(path: &str) -> Option<(&str, Key)> {
    let (run, file) = path.strip_prefix("run=")?.split_once(STAGED)?;
    let key = u64::from_str_radix(file.strip_suffix(".rows")?, 16).ok()?;
    Some((run, Key(key.cast_signed())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back_as_what_they_were_made_of() {
        let file = DataFile {
            run: name_of("slurm 4711/a"),
            table: "held",
            node: SEVERAL.into(),
            part: "00ff".into(),
        };
        assert_eq!(
            file.path(),
            "run=slurm-4711-a/table=held/node=several/00ff.parquet"
        );
        assert_eq!(DataFile::parse(&file.path()), Some(file.clone()));
        for other in [
            "run=a/table=held/node=b/_x.parquet",
            "run=a/table=later/node=b/x.parquet",
            "run=a/table=held/node=b/c/x.parquet",
            "_parts/00000001.json",
        ] {
            assert_eq!(DataFile::parse(other), None, "{other}");
        }
        assert_eq!(parse_entry(&entry_path(12)), Some((12, "json")));
        assert_eq!(parse_entry("_parts/00000012.pruned"), Some((12, "pruned")));
        let path = staged_path("r", Key(-2));
        assert_eq!(path, "run=r/_staged/fffffffffffffffe.rows");
        assert_eq!(parse_staged(&path), Some(("r", Key(-2))));
    }
}
