//! JSON Schemas of the output of commands, derived from the types that are printed.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::capture::Capture;
use super::view::{Form, Heads, View, id};

/// The schema of a form. Objects are closed: a key that the schema does not name is an error.
pub fn schema<V: View>() -> Value {
    let mut generator = generator();
    let body = generator.subschema_for::<V>().to_value();
    of(V::FORM, body, generator)
}

/// The same of a form whose result is a list of rows with this schema.
pub fn schema_of_rows(form: Form, row: Value) -> Value {
    let mut generator = generator();
    let rows = generator.definitions_mut();
    rows.insert("Row".into(), row);
    let body = json!({"type": "array", "items": {"$ref": "#/$defs/Row"}});
    of(form, body, generator)
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
}

fn of(form: Form, body: Value, mut generator: SchemaGenerator) -> Value {
    let capture = generator.subschema_for::<Capture>().to_value();
    let captures = json!({"type": "array", "minItems": 2, "items": capture});
    let mut properties = Map::new();
    properties.insert("schema".into(), json!({"const": id(form.name)}));
    let mut required = vec!["schema", form.body.key()];
    match form.heads {
        Heads::None => {}
        Heads::One => {
            properties.insert("capture".into(), capture);
            required.push("capture");
        }
        Heads::Several => {
            properties.insert("captures".into(), captures);
            required.push("captures");
        }
        Heads::OneOrSeveral => {
            properties.insert("capture".into(), capture);
            properties.insert("captures".into(), captures);
        }
    }
    properties.insert(form.body.key().into(), body);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": id(form.name),
        "type": "object",
        "properties": properties,
        "required": required,
    });
    if form.heads == Heads::OneOrSeveral {
        schema["oneOf"] = json!([{"required": ["capture"]}, {"required": ["captures"]}]);
    }
    let mut definitions = generator.take_definitions(true);
    if form.heads == Heads::None {
        definitions.remove("Capture");
    }
    schema["$defs"] = Value::Object(definitions);
    tidy(&mut schema);
    close(&mut schema, false);
    schema
}

/// Turns the doc comments of types into descriptions: JSON's terms, one line each.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ").replace("`None`", "`null`");
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(all) => all.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Closes objects. Those that another schema completes are closed where all their keys are known.
fn close(schema: &mut Value, is_part: bool) {
    let Value::Object(object) = schema else {
        if let Value::Array(all) = schema {
            all.iter_mut().for_each(|one| close(one, is_part));
        }
        return;
    };
    let has_parts = ["$ref", "allOf", "anyOf", "oneOf"]
        .iter()
        .any(|key| object.contains_key(*key));
    let has_properties = object.get("properties").is_some_and(Value::is_object);
    if has_properties && !is_part && !object.contains_key("additionalProperties") {
        let key = match has_parts {
            true => "unevaluatedProperties",
            false => "additionalProperties",
        };
        object.insert(key.into(), false.into());
    }
    for (key, value) in object.iter_mut() {
        match key.as_str() {
            "properties" | "$defs" => {
                let named = value.as_object_mut().into_iter().flat_map(Map::values_mut);
                named.for_each(|one| close(one, false));
            }
            "items" | "prefixItems" | "additionalProperties" => close(value, false),
            "allOf" | "anyOf" | "oneOf" => close(value, has_properties),
            _ => {}
        }
    }
}
