//! Names that are embedded in a recorded capture.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use gpumem_capture::embedded::embed;
use gpumem_capture::{Definition, Reader};

/// The embedded names of a capture.
#[derive(Debug, Default)]
pub(crate) struct Symbols(Vec<Definition>);

impl Symbols {
    /// Takes a definition of a name; returns whether it was one.
    pub(crate) fn take(&mut self, definition: &Definition) -> bool {
        let is_name = matches!(definition, Definition::Symbol { .. });
        if is_name {
            self.0.push(definition.clone());
        }
        is_name
    }

    /// Embeds them in another capture.
    pub(crate) fn embed(self, path: &Path) -> Result<(), Box<dyn core::error::Error>> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut named = path.as_os_str().to_owned();
        named.push(".named");
        let mut to = BufWriter::new(File::create_new(&named)?);
        embed(&Reader::open(path)?, self.0, &mut to, &mut |_| {})?;
        to.into_inner()?.sync_data()?;
        std::fs::rename(&named, path)?;
        Ok(())
    }
}
