//! The tables as the text of `docs/dataset.md`.

use std::fmt::Write;

use crate::rows::TABLES;
use crate::table::Kind;

/// All tables in Markdown.
pub fn markdown() -> String {
    let mut text = String::new();
    for table in TABLES {
        let sorted_by = table.sorted_by.join(", ");
        let _ = writeln!(text, "### {}\n\n{}\n", table.name, table.doc.trim());
        let _ = writeln!(
            text,
            "Sorted by {sorted_by}.\n\n| column | type | what it is |\n|---|---|---|"
        );
        for column in table.columns {
            let kind = match column.kind {
                Kind::Int => "INT64",
                Kind::Key => "INT64, key",
                Kind::Time => "TIMESTAMP, µs UTC",
                Kind::Text => "STRING",
                Kind::Bool => "BOOLEAN",
            };
            let null = if column.is_optional { ", or null" } else { "" };
            let _ = writeln!(
                text,
                "| {} | {kind}{null} | {} |",
                column.name,
                column.doc.trim()
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- tables -->\n";
    const END: &str = "<!-- end of tables -->";

    /// `GPUMEM_WRITE=1 cargo test -p gpumem-dataset` writes them.
    #[test]
    fn the_page_has_these_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dataset.md");
        let page = std::fs::read_to_string(path).expect("docs/dataset.md");
        let (head, rest) = page.split_once(BEGIN).expect("the tables' begin");
        let (found, tail) = rest.split_once(END).expect("the tables' end");
        if std::env::var_os("GPUMEM_WRITE").is_some() {
            let page = format!("{head}{BEGIN}{}{END}{tail}", markdown());
            std::fs::write(path, page).expect("written");
        } else {
            assert_eq!(
                found,
                markdown(),
                "GPUMEM_WRITE=1 cargo test -p gpumem-dataset"
            );
        }
    }
}
