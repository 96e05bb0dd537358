//! Prints the JSON Schemas of all forms of gpumem-analyze, for scripts/schemas: one object, by the names of the forms.

use std::io;

fn main() -> anyhow::Result<()> {
    serde_json::to_writer(io::stdout(), &gpumem_analyze::schemas())?;
    Ok(())
}
