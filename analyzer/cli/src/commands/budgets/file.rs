//! gpumem.toml: budgets and allowances.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpumem_analyzer::views::ci::{Allowance, Budget, Day, Growth};
use gpumem_capture::Level;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::quantities;

/// The file name that is searched for.
pub const NAME: &str = "gpumem.toml";

/// The contents of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Budgets by workload.
    pub budgets: Vec<Budget>,
    /// Allowances, in their order.
    pub allowances: Vec<Allowance>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    budget: BTreeMap<String, Spanned<BudgetTable>>,
    #[serde(default)]
    allow: Vec<AllowTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetTable {
    peak: Option<Size>,
    level: Option<LevelName>,
    grow: Option<GrowthText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowTable {
    workload: String,
    #[serde(deserialize_with = "required")]
    grow: GrowthText,
    #[serde(deserialize_with = "required")]
    until: Date,
    reason: Option<String>,
}

struct Size(u64);
struct GrowthText(Growth);
struct LevelName(Level);
struct Date(Day);

/// Accepts an absent field, so that the error names it as missing.
fn required<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    T::deserialize(from)
}

/// An integer of bytes, or a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Bytes(u64),
    Text(String),
}

fn written<'de, D: Deserializer<'de>, T>(
    from: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let text = match Written::deserialize(from) {
        Ok(Written::Bytes(bytes)) => bytes.to_string(),
        Ok(Written::Text(text)) => text,
        Err(_) => return Err(D::Error::custom("expected a size, as \"64 MiB\"")),
    };
    read(&text).map_err(D::Error::custom)
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        written(from, quantities::size).map(Self)
    }
}

impl<'de> Deserialize<'de> for GrowthText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        written(from, quantities::growth).map(Self)
    }
}

impl<'de> Deserialize<'de> for LevelName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let levels = [Level::TENSOR, Level::DRIVER, Level::PHYSICAL, Level::HOST];
        let found = levels.into_iter().find(|level| level.name() == name);
        let said = || format!("level {name:?} is none of tensor, driver, physical, host");
        found.map(Self).ok_or_else(|| D::Error::custom(said()))
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let date = toml::value::Datetime::deserialize(from)
            .map_err(|_| D::Error::custom("expected a day without quotes: 2026-12-31"))?;
        quantities::day(&date.to_string())
            .map(Self)
            .map_err(D::Error::custom)
    }
}

/// The file in a folder or in one above it.
pub fn find(folder: &Path) -> Option<PathBuf> {
    let found = folder.ancestors().map(|folder| folder.join(NAME));
    found.into_iter().find(|path| path.is_file())
}

/// Reads a file. Errors contain the line.
pub fn read(path: &Path) -> anyhow::Result<Budgets> {
    let text = gpumem_files::read::text(path).map_err(|error| {
        anyhow::anyhow!(
            "{}: {error}: --budgets names a file of budgets",
            path.display()
        )
    })?;
    parse(&text).map_err(|(line, said)| anyhow::anyhow!("{}:{line}: {said}", path.display()))
}

/// The number of the wrong line, and the error.
pub type Wrong = (usize, String);

/// Reads the text of a file.
pub fn parse(text: &str) -> Result<Budgets, Wrong> {
    let line = |at: usize| {
        text.as_bytes()
            .iter()
            .take(at)
            .filter(|byte| **byte == b'\n')
            .count()
            + 1
    };
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(1, |span| line(span.start));
        (at, error.message().replace('\n', ", "))
    })?;
    let mut found = Budgets::default();
    for (workload, table) in file.budget {
        let at = table.span().start;
        let table = table.into_inner();
        if table.peak.is_none() && table.grow.is_none() {
            return Err((
                line(at),
                format!("budget {workload:?} has neither peak nor grow"),
            ));
        }
        if table.peak.is_none() && table.level.is_some() {
            return Err((
                line(at),
                format!("budget {workload:?} has a level and no peak"),
            ));
        }
        found.budgets.push(Budget {
            workload,
            peak: table.peak.map(|size| size.0),
            level: table.level.map(|level| level.0),
            grow: table.grow.map(|grow| grow.0),
        });
    }
    found
        .allowances
        .extend(file.allow.into_iter().map(|table| Allowance {
            workload: table.workload,
            grow: table.grow.0,
            until: table.until.0,
            reason: table.reason,
        }));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
[budget."train"]
peak = "2.5 GiB"
level = "driver"
grow = "1%"
[budget."tests/test_x.py::test_y"]
peak = 1048576
[[allow]]
workload = "train"
grow = "64 MiB"
until = 2026-12-31
reason = "bigger vocabulary, #123"
"#;

    #[test]
    fn a_file_is_read() {
        let found = parse(WHOLE).expect("a file");
        assert_eq!(found.budgets.len(), 2);
        let of = found
            .budgets
            .iter()
            .find(|of| of.workload == "train")
            .expect("train");
        assert_eq!((of.peak, of.level), (Some(5 << 29), Some(Level::DRIVER)));
        assert_eq!(of.grow, Some(Growth::Percent(1_000_000)));
        assert_eq!(found.allowances[0].until.to_string(), "2026-12-31");
        assert_eq!(found.allowances[0].grow, Growth::Bytes(64 << 20));
        assert_eq!(parse(""), Ok(Budgets::default()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, said) in [
            ("[budget.a]\npeek = 1", 2, "unknown field `peek`"),
            ("[budgets.a]\npeak = 1", 1, "unknown field `budgets`"),
            ("[budget.a]\n\npeak = \"2 G\"", 3, "\"2 G\" is not a size"),
            (
                "[budget.a]\npeak = 1\nlevel = \"gpu\"",
                3,
                "is none of tensor, driver",
            ),
            ("[budget.a]\npeak = -1", 2, "expected a size"),
            ("\n[budget.a]", 2, "has neither peak nor grow"),
            (
                "[budget.a]\nlevel = \"driver\"\ngrow = 1",
                1,
                "has a level and no peak",
            ),
            (
                "[[allow]]\nworkload = \"a\"\ngrow = 1",
                1,
                "missing field `until`",
            ),
            (
                "[[allow]]\nworkload = \"a\"\ngrow = 1\nuntil = \"2026-12-31\"",
                4,
                "without quotes",
            ),
            (
                "[[allow]]\nworkload = \"a\"\ngrow = 1\nuntil = 2026-12-31T10:00:00Z",
                4,
                "is not a day",
            ),
            ("[budget.a\npeak = 1", 1, ""),
            ("[budget.a]\npeak = 1\n[budget.a]\npeak = 2", 3, "duplicate"),
        ] {
            let (at, found) = parse(text).expect_err(text);
            assert_eq!(at, line, "{text}: {found}");
            assert!(found.contains(said), "{text}: {found}");
            assert!(!found.contains('\n'), "{found}");
        }
    }
}
