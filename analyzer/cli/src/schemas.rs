//! Generates docs/schema: a file for each form of JSON that commands print, from the types that they print.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};
use gpumem_analyzer::envelope::{View, schema, schemas};
use serde_json::Value;

use crate::cli::Cli;
use crate::commands::cmd_fleet::forms as fleet;
use crate::commands::cmd_ranks::WithTimeline;
use crate::commands::{cmd_check, cmd_diff, cmd_oom, pool};

/// Files of the Python package, which tests/test_schema_python.py writes and checks.
const OF_PYTHON: [&str; 8] = [
    "card",
    "card-list",
    "card-show",
    "doctor",
    "fleet-query",
    "fleet-sql",
    "plan",
    "whatif",
];
/// Additional forms of commands that have several.
const FURTHER: [&str; 12] = [
    "annotated",
    "categories",
    "fragmentation",
    "groups",
    "hints",
    "modules",
    "ranks-timeline",
    "scopes",
    "sizes",
    "summary",
    "temporary",
    "threads",
];

fn all() -> BTreeMap<&'static str, Value> {
    fn of<V: View>() -> (&'static str, Value) {
        (V::FORM.name, schema::<V>())
    }
    let mut all = BTreeMap::from_iter(schemas());
    all.extend(gpumem_analyzer::answers::schemas());
    all.extend([
        of::<cmd_check::Check<'_>>(),
        of::<cmd_diff::Report<'_>>(),
        of::<pool::Pools>(),
        of::<cmd_oom::Report<'_>>(),
        of::<WithTimeline<'_>>(),
        of::<gpumem_analyzer::fleet::FleetOutliers>(),
        of::<fleet::Pruned>(),
        of::<fleet::Summary>(),
        of::<fleet::Tables>(),
    ]);
    all
}

fn folder() -> PathBuf {
    PathBuf::from("../../docs/schema")
}

/// `GPUMEM_BLESS=1 scripts/test unit` sets the variable of insta, which writes the files.
#[test]
fn the_schema_of_each_form_is_in_the_documentation() {
    let is_blessed = std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always");
    for (name, schema) in all() {
        let file = folder().join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if is_blessed {
            fs::write(&file, &text).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            found == text,
            "{} is not what the types say: GPUMEM_BLESS=1 scripts/test unit writes it",
            file.display()
        );
    }
    for file in fs::read_dir(folder()).unwrap() {
        let name = file.unwrap().path();
        let name = name.file_stem().unwrap().to_string_lossy().into_owned();
        let known = all().contains_key(&*name) || OF_PYTHON.contains(&&*name);
        assert!(known, "docs/schema/{name}.json is of no command");
    }
}

#[test]
fn each_command_with_json_has_a_schema() {
    fn with_json(command: &Command, before: &str, names: &mut Vec<String>) {
        for command in command.get_subcommands() {
            let name = format!("{before}{}", command.get_name());
            let has_json = command.get_arguments().any(|argument| {
                let values = argument.get_possible_values();
                argument.get_id() == "format" && values.iter().any(|of| of.get_name() == "json")
            });
            if has_json {
                names.push(name.clone());
            }
            with_json(command, &format!("{name}-"), names);
        }
    }
    let mut names = Vec::new();
    with_json(&Cli::command(), "", &mut names);
    names.extend(FURTHER.map(str::to_owned));
    names.sort();
    assert_eq!(names, Vec::from_iter(all().into_keys()));
}

#[test]
fn objects_are_closed() {
    fn open(at: &str, schema: &Value, found: &mut Vec<String>) {
        let Value::Object(object) = schema else {
            return;
        };
        let closed = ["additionalProperties", "unevaluatedProperties"]
            .iter()
            .any(|key| object.contains_key(*key));
        if object.contains_key("properties") && !closed {
            found.push(at.to_owned());
        }
        for (key, value) in object {
            match key.as_str() {
                "properties" | "$defs" => {
                    for (name, value) in value.as_object().unwrap() {
                        open(&format!("{at}/{name}"), value, found);
                    }
                }
                "items" => open(&format!("{at}/items"), value, found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    for (name, schema) in all() {
        open(name, &schema, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}
