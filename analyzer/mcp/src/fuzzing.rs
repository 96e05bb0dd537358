//! For the fuzz target of arguments (fuzz/) and the test that runs it on its seeds.

use std::path::PathBuf;

use gpumem_capture::text;
use serde_json::{Map, Value};

use crate::cancel::Cancel;
use crate::context::Context;
use crate::roots::Roots;
use crate::server::Server;
use crate::sessions::Sessions;
use crate::{MOST, Options};

/// A server whose tools are called without a client.
pub struct Tools(Server);

impl Tools {
    /// A server over a folder of captures, which runs no programs.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn new(folder: PathBuf) -> Result<Self, crate::Error> {
        let options = Options {
            roots: vec![folder],
            ..Options::default()
        };
        let context = Context {
            roots: Roots::new(&options.roots)?,
            sessions: Sessions::default(),
            gpumem: None,
            cancel: Cancel::default(),
        };
        Ok(Self(Server::new(context)))
    }

    /// Asks a tool, and checks its answer. Returns whether it has one that is not a refusal.
    ///
    /// # Panics
    /// If the answer is too long, has characters that a terminal acts on, or reports an internal error.
    pub fn judge(&self, tool: &str, arguments: Map<String, Value>) -> bool {
        match self.0.ask(tool, arguments, Cancel::default()) {
            None => false,
            Some(Ok(answer)) => {
                let answer = Value::Object(answer);
                let length = answer.to_string().len();
                assert!(length <= MOST, "{tool}: {length} bytes");
                assert_texts(&answer);
                true
            }
            Some(Err(refusal)) => {
                let refusal = refusal.to_string();
                assert!(!refusal.contains("an internal error"), "{refusal}");
                assert_eq!(text::clean(&refusal), refusal, "{tool}");
                false
            }
        }
    }
}

fn assert_texts(value: &Value) {
    match value {
        Value::String(text) => assert_eq!(text::clean_lines(text), *text),
        Value::Array(values) => values.iter().for_each(assert_texts),
        Value::Object(values) => values.iter().for_each(|(name, value)| {
            assert_eq!(text::clean(name), *name);
            assert_texts(value);
        }),
        _ => {}
    }
}
