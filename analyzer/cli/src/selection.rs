//! Arguments that views share: the level, the point in time, and filters.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use gpumem_analyzer::ask::Wanted;
pub use gpumem_analyzer::moment::{decimal, parse as moment, time};
use gpumem_analyzer::render::bytes;
use gpumem_analyzer::replay::{At, Category, Query, Sizes};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{ByStack, Select, at};
use gpumem_capture::{DeviceOrdinal, Level};

/// A level as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LevelArg {
    /// Tensors: blocks in the framework's pool
    Tensor,
    /// Device memory allocated from CUDA
    Driver,
    /// Pinned host memory
    Host,
}

impl From<LevelArg> for Level {
    fn from(level: LevelArg) -> Self {
        match level {
            LevelArg::Tensor => Self::TENSOR,
            LevelArg::Driver => Self::DRIVER,
            LevelArg::Host => Self::HOST,
        }
    }
}

/// Which part of a capture: device, owners, sizes.
#[derive(Args, Clone, Debug, Default)]
pub struct Part {
    /// The level. Default: tensor, or driver if the capture has no tensors
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// Only the GPU with this ordinal
    #[arg(long, value_name = "N")]
    pub device: Option<u8>,
    /// Read the capture of this rank: report.rankN.bin in the folder of the named file
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Only memory owned by lines of files whose path contains PART
    #[arg(long = "file", value_name = "PART")]
    pub in_file: Option<String>,
    /// Only memory owned by lines in functions whose name contains PART
    #[arg(long, value_name = "PART")]
    pub function: Option<String>,
    /// Only memory requested by a library whose path contains PART
    #[arg(long, value_name = "PART")]
    pub library: Option<String>,
    /// Only tensors of this category: parameter, gradient, optimizer-state, activation, input, workspace, temporary
    /// or other
    #[arg(long, value_name = "CATEGORY", value_parser = category)]
    pub category: Option<Category>,
    /// Only memory allocated by PyTorch modules with a matching name, and by their submodules: `blocks.*.attn` (`*`
    /// matches any characters)
    #[arg(long, value_name = "PATTERN")]
    pub module: Option<String>,
    /// Only blocks of this size: `2MiB`, `1MiB..`, `..4KiB`, `1MiB..2MiB` (both ends included)
    #[arg(long, value_name = "SIZES", value_parser = sizes)]
    pub size: Option<Sizes>,
}

/// A capture, for views that have no filters.
#[derive(Args, Clone, Debug)]
pub struct Capture {
    /// Read the capture of this rank: report.rankN.bin in the folder of the named file
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// The capture
    pub file: PathBuf,
}

impl Capture {
    /// The file that is meant.
    pub fn path(&self) -> PathBuf {
        self.rank
            .map_or_else(|| self.file.clone(), |rank| of_rank(&self.file, rank))
    }
}

/// Which figures.
#[derive(Args, Clone, Debug)]
pub struct Selection {
    /// The point in time: peak (of each GPU), end, oom (the last out-of-memory exception, else the last failed
    /// allocation), an event's number, a time (`1.5s`, `00:01.500`) or step=N (the end of step N)
    #[arg(long, value_name = "POINT", default_value = "peak", value_parser = moment)]
    pub at: At,
    /// Of what.
    #[command(flatten)]
    pub part: Part,
}

impl Part {
    /// The capture for the given file.
    pub fn capture(&self, named: &Path) -> PathBuf {
        match self.rank {
            Some(rank) => of_rank(named, rank),
            None => named.to_owned(),
        }
    }

    /// The filter of bytes.
    pub fn select(&self) -> Select {
        Select {
            device: self.device.map(DeviceOrdinal),
            file: self.in_file.clone(),
            function: self.function.clone(),
            library: self.library.clone(),
            category: self.category,
            module: self.module.clone(),
        }
    }

    /// The same, for views that see blocks come and go.
    ///
    /// # Errors
    /// A block's category is known only at its end, so it cannot filter blocks while they are allocated.
    pub fn select_of_events(&self) -> anyhow::Result<Select> {
        if self.category.is_some() {
            anyhow::bail!(
                "--category is not possible here, because a block's category is known only when it is freed: use lines, tree or flamegraph"
            );
        }
        Ok(self.select())
    }

    /// The part, for a question.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            level: self.level.map(Into::into),
            select: self.select(),
            sizes: self.size.unwrap_or_default(),
        }
    }

    /// The same for a question that follows blocks.
    ///
    /// # Errors
    /// As [`Self::select_of_events`].
    pub fn wanted_of_events(&self) -> anyhow::Result<Wanted> {
        self.select_of_events()?;
        Ok(self.wanted())
    }

    /// The requested level, or the default one.
    ///
    /// # Errors
    /// The capture does not have the requested GPU.
    pub fn level(&self, session: &Session) -> anyhow::Result<Level> {
        Ok(self.wanted().level(session)?)
    }

    /// The filters in words: `, files with net.py, blocks of 1 MiB or more`; empty without filters.
    pub fn said(&self) -> String {
        let mut said = String::new();
        if let Some(device) = self.device {
            said.push_str(&format!(", GPU {device}"));
        }
        for (what, part) in [
            ("files", &self.in_file),
            ("functions", &self.function),
            ("libraries", &self.library),
        ] {
            if let Some(part) = part {
                said.push_str(&format!(", {what} with \"{part}\""));
            }
        }
        if let Some(category) = self.category {
            said.push_str(&format!(", category {}", category.name()));
        }
        if let Some(module) = &self.module {
            said.push_str(&format!(", modules \"{module}\""));
        }
        if let Some(sizes) = self.size {
            said.push_str(&match (sizes.least, sizes.most) {
                (least, most) if least == most => format!(", blocks of {}", bytes(least)),
                (least, u64::MAX) => format!(", blocks of {} or more", bytes(least)),
                (0, most) => format!(", blocks of {} or less", bytes(most)),
                (least, most) => format!(", blocks of {} to {}", bytes(least), bytes(most)),
            });
        }
        said
    }
}

impl Selection {
    /// What the replay must keep.
    pub fn query(&self) -> Query {
        Query {
            moment: self.at,
            sizes: self.part.size.unwrap_or_default(),
            ..Query::default()
        }
    }

    /// The memory of stacks at a level.
    pub fn held(&self, session: &Session, level: Level) -> ByStack {
        ByStack::at(&session.replay, level, self.at, &self.part.select())
    }

    /// When, and of what, in words: `at the peak, GPU 0`.
    pub fn said(&self) -> String {
        at(self.at) + &self.part.said()
    }
}

/// `report.bin` or `report.rank0.bin` → `report.rank3.bin`.
fn of_rank(named: &Path, rank: u32) -> PathBuf {
    let stem = named.file_stem().unwrap_or_default().to_string_lossy();
    let base = match stem.rsplit_once(".rank") {
        Some((base, number)) if number.bytes().all(|b| b.is_ascii_digit()) => base,
        _ => &stem,
    };
    let mut name = format!("{base}.rank{rank}");
    if let Some(extension) = named.extension() {
        name.push('.');
        name.push_str(&extension.to_string_lossy());
    }
    named.with_file_name(name)
}

/// Reads `activation` or `optimizer-state`.
fn category(text: &str) -> Result<Category, String> {
    let name = text.replace(['-', '_'], " ");
    let found = Category::ALL.into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| {
        let names: Vec<_> = Category::ALL
            .iter()
            .map(|it| it.name().replace(' ', "-"))
            .collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Reads `2MiB`, `1MiB..`, `..4KiB` or `1MiB..2MiB`.
fn sizes(text: &str) -> Result<Sizes, String> {
    let all = Sizes::default();
    let sizes = match text.split_once("..") {
        None => size(text).map(|size| (size, size)),
        Some(("", "")) => None,
        Some(("", most)) => size(most).map(|most| (all.least, most)),
        Some((least, "")) => size(least).map(|least| (least, all.most)),
        Some((least, most)) => size(least).zip(size(most)),
    };
    sizes
        .filter(|(least, most)| least <= most)
        .map(|(least, most)| Sizes { least, most })
        .ok_or_else(|| "expected a size, or a range: 2MiB, 1MiB.., ..4KiB, 1MiB..2MiB".into())
}

/// Reads `512`, `4KiB`, `1.5GiB`.
pub fn size(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(number.len()..)?.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    decimal(number.trim_end(), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_both_ends_or_one() {
        let of = |least, most| Ok(Sizes { least, most });
        assert_eq!(sizes("2MiB"), of(2 << 20, 2 << 20));
        assert_eq!(sizes("1.5k.."), of(1536, u64::MAX));
        assert_eq!(sizes("..4KiB"), of(0, 4096));
        assert_eq!(sizes("1MiB..1GiB"), of(1 << 20, 1 << 30));
        for wrong in ["..", "2..1", "x", "1XB", "1e3"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranks_stand_beside_each_other() {
        let of = |named: &str| of_rank(Path::new(named), 3);
        assert_eq!(of("a/report.bin"), Path::new("a/report.rank3.bin"));
        assert_eq!(of("report.rank12.bin"), Path::new("report.rank3.bin"));
        assert_eq!(of("my.ranking.bin"), Path::new("my.ranking.rank3.bin"));
        assert_eq!(of("report"), Path::new("report.rank3"));
    }
}
