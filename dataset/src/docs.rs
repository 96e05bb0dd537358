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
            "Sorted by {sorted_by}.\n\n| column | type | meaning |\n|---|---|---|"
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
    use crate::rows::SCHEMA;

    /// The tables as the Python package has them: names, SQL types, and sort order.
    fn json() -> String {
        let tables: Vec<String> = TABLES
            .iter()
            .map(|table| {
                let columns: Vec<String> = table
                    .columns
                    .iter()
                    .map(|column| {
                        let kind = match column.kind {
                            Kind::Int | Kind::Key => "BIGINT",
                            Kind::Time => "TIMESTAMP",
                            Kind::Text => "VARCHAR",
                            Kind::Bool => "BOOLEAN",
                        };
                        format!("      \"{}\": \"{kind}\"", column.name)
                    })
                    .collect();
                let sorted_by = table.sorted_by.join("\", \"");
                format!(
                    "    \"{}\": {{\"sorted_by\": [\"{sorted_by}\"], \"columns\": {{\n{}\n    }}}}",
                    table.name,
                    columns.join(",\n")
                )
            })
            .collect();
        let tables = tables.join(",\n");
        format!("{{\n  \"schema\": {SCHEMA},\n  \"tables\": {{\n{tables}\n  }}\n}}\n")
    }

    /// Whether insta stores new outputs.
    fn is_blessed() -> bool {
        std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always")
    }

    /// `GPUMEM_BLESS=1 scripts/test unit` writes them.
    #[test]
    fn the_python_package_has_these_tables() {
        // Tests run in their package's folder.
        let path = "../python/gpumem/_commands/fleet/tables.json";
        if is_blessed() {
            std::fs::write(path, json()).expect("written");
        }
        let found = std::fs::read_to_string(path).expect("tables.json");
        assert_eq!(found, json(), "GPUMEM_BLESS=1 scripts/test unit");
    }

    const BEGIN: &str = "<!-- tables -->\n";
    const END: &str = "<!-- end of tables -->";

    /// `GPUMEM_BLESS=1 scripts/test unit` writes them.
    #[test]
    fn the_page_has_these_tables() {
        let path = "../docs/dataset.md";
        let page = std::fs::read_to_string(path).expect("docs/dataset.md");
        let (head, rest) = page.split_once(BEGIN).expect("the tables' begin");
        let (found, tail) = rest.split_once(END).expect("the tables' end");
        if is_blessed() {
            let page = format!("{head}{BEGIN}{}{END}{tail}", markdown());
            std::fs::write(path, page).expect("written");
        } else {
            assert_eq!(found, markdown(), "GPUMEM_BLESS=1 scripts/test unit");
        }
    }
}
