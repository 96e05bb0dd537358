//! All tools: their names, their descriptions for assistants, and their functions.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::found::Found;
use crate::gpumem::Gpumem;
use crate::refusal::{Refusal, refused};
use crate::tools::{
    captures, diff, hints, leaks, ledger, lines, plan, source, summary, tree, whatif, why,
};

/// The function of a tool.
type Answer = Box<dyn Fn(&mut Context, Map<String, Value>) -> Result<Found, Refusal> + Send + Sync>;

/// A tool.
pub struct Entry {
    /// The tool as clients see it.
    pub tool: Tool,
    answer: Answer,
}

impl Entry {
    /// The answer of the tool.
    ///
    /// # Errors
    /// The arguments are invalid, or the tool fails.
    pub fn answer(
        &self,
        context: &mut Context,
        arguments: Map<String, Value>,
    ) -> Result<Found, Refusal> {
        (self.answer)(context, arguments)
    }
}

/// The tools of a server.
pub fn catalog(gpumem: Option<&Gpumem>) -> Vec<Entry> {
    let mut all = vec![
        entry(
            "captures",
            "List captures",
            "Lists the captures (recordings of a program's GPU memory) in the server's folders, newest first: name, size, program, how the process ended (clean, killed, running). Start here.",
            captures::answer,
        ),
        entry(
            "summary",
            "Summary of a run",
            "What ran and what each GPU held: live and peak bytes of tensors, of each category, of the driver and of the \
             card, steps, failures, and whether the figures are exact.",
            summary::answer,
        ),
        entry(
            "why",
            "Why it ran out of memory",
            "Why an allocation failed because memory ran out: the failure, its cause with advice, and as rows the lines of code that held memory then. States if no allocation failed.",
            why::answer,
        ),
        entry(
            "lines",
            "Lines that own memory",
            "Which lines of code own GPU memory at a point in time, largest first; or functions, callers, libraries, modules, categories, phases. Unfiltered rows of live memory sum to the level's figure.",
            lines::answer,
        ),
        entry(
            "tree",
            "Calls that own memory",
            "The calls that own memory at a point in time as a tree, depth first: each row has its depth and the calls from the row above it to the next branch.",
            tree::answer,
        ),
        entry(
            "diff",
            "Difference of two captures",
            "Differences between two captures, or between two points in time of one, line by line, largest change first.",
            diff::answer,
        ),
        entry(
            "leaks",
            "Memory that stays from step to step",
            "Memory that stays live across steps of a training, by line: growing lines first, then caches, the warm-up and blocks of the last steps.",
            leaks::answer,
        ),
        entry(
            "ledger",
            "Parts of a GPU's memory",
            "Breakdown of each GPU's memory at a point in time: tensors, PyTorch's cache, contexts, kernels, libraries, other processes. The parts sum to NVML's figure.",
            ledger::answer,
        ),
        entry(
            "hints",
            "Advice to reduce memory",
            "Advice to reduce the memory of a run, with the evidence and the bytes of each hint.",
            hints::answer,
        ),
        entry(
            "source",
            "Source around a line",
            "The source text around a line that a capture names, with the bytes that each line owns at a point in time. Only files in the server's folders.",
            source::answer,
        ),
    ];
    if gpumem.is_some() {
        all.push(entry(
            "whatif",
            "Other allocator settings",
            "Replays the recorded run in PyTorch's allocator itself, with other settings or on a card of another size. Takes seconds to minutes.",
            whatif::answer,
        ));
    }
    if gpumem.is_some_and(|gpumem| gpumem.runs_programs) {
        let mut plan = entry(
            "plan",
            "Whether a program fits a GPU",
            "Whether a program fits a GPU that this machine does not have. Runs the program itself on a simulated card, including its writes to files.",
            plan::answer,
        );
        plan.tool.annotations = Some(
            ToolAnnotations::with_title("Whether a program fits a GPU")
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(true),
        );
        all.push(plan);
    }
    all
}

fn entry<A: DeserializeOwned + JsonSchema + 'static>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    answer: fn(&mut Context, A) -> Result<Found, Refusal>,
) -> Entry {
    let annotations = ToolAnnotations::with_title(title)
        .read_only(true)
        .idempotent(true)
        .open_world(false);
    let tool = Tool::new(name, description, Arc::new(schema::<A>()))
        .with_title(title)
        .with_annotations(annotations);
    let answer = move |context: &mut Context, arguments| {
        let wrong = |error| refused!("{name}: {error}: see the tool's input schema");
        let arguments = serde_json::from_value(Value::Object(arguments)).map_err(wrong)?;
        answer(context, arguments)
    };
    Entry {
        tool,
        answer: Box::new(answer),
    }
}

/// The schema of the arguments, with the cursor that every tool takes.
fn schema<A: JsonSchema>() -> JsonObject {
    let mut schema = match schemars::schema_for!(A).to_value() {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.remove("title");
    schema.remove("$schema");
    // The type's own comment is for readers of the code.
    schema.remove("description");
    let cursor = json!({
        "type": "string",
        "description": "For the next page: the `next` of an answer, with the same arguments",
    });
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    properties["cursor"] = cursor;
    schema
}
