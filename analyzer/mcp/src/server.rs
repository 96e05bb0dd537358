//! The protocol: lists the tools and handles their calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};

use crate::cancel::Cancel;
use crate::catalog::{Entry, catalog};
use crate::context::Context;
use crate::questions::Questions;
use crate::refusal::{Refusal, refused};

const INSTRUCTIONS: &str = "\
Figures of GPU memory from captures that gpumem recorded. Start with captures; for a failed run call why, then source for the line it names. Figures in bytes are exact integers, with a short size next to them for people. The field account reports whether a capture is intact: mention it to the user if it is not. An answer has at most 4096 bytes: more is the number of rows that follow, and next is the cursor for them, to be passed with the same arguments.";
/// The sentence that follows the description of each tool.
const READ_ONLY: &str = " The server writes no files.";
const BUT_PLAN: &str = " The server writes no files, except those of programs that plan runs.";

/// The server.
#[derive(Clone)]
pub struct Server {
    tools: Arc<Vec<Entry>>,
    questions: Arc<Mutex<Questions>>,
}

impl Server {
    /// A server with this context.
    pub fn new(context: Context) -> Self {
        Self {
            tools: Arc::new(catalog(context.gpumem.as_ref())),
            questions: Arc::new(Mutex::new(Questions::new(context))),
        }
    }

    /// A page of an answer; `None` if the tool does not exist.
    pub fn ask(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        cancel: Cancel,
    ) -> Option<Result<Map<String, Value>, Refusal>> {
        let entry = self.tools.iter().find(|entry| entry.tool.name == name)?;
        let mut questions = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // If a view panics on a capture, the request fails and the server continues.
        let answer = catch_unwind(AssertUnwindSafe(|| questions.ask(entry, arguments, cancel)));
        Some(answer.unwrap_or_else(|_| {
            Err(refused!("{name}: an internal error of gpumem; gpumem-analyze check shows whether the capture is intact"))
        }))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let own = Implementation::new("gpumem", env!("CARGO_PKG_VERSION"));
        let has_plan = self.tools.iter().any(|entry| entry.tool.name == "plan");
        let instructions = INSTRUCTIONS.to_owned() + if has_plan { BUT_PLAN } else { READ_ONLY };
        ServerConfig::new(capabilities)
            .with_server_info(own)
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(|entry| entry.tool.clone());
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let entry = self.tools.iter().find(|entry| entry.tool.name == name)?;
        Some(entry.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (server, name) = (self.clone(), request.name.clone());
        let arguments = request.arguments.unwrap_or_default();
        let cancel = Cancel::from(move || context.ct.is_cancelled());
        // Reading a capture takes time; other requests are handled meanwhile.
        let ask = move || server.ask(&name, arguments, cancel);
        let asked = tokio::task::spawn_blocking(ask).await;
        let failed = |error| ErrorData::internal_error(format!("{}: {error}", request.name), None);
        match asked.map_err(failed)? {
            Some(answer) => Ok(result(answer).into()),
            None => {
                let names = self.tools.iter().map(|entry| entry.tool.name.as_ref());
                let names = names.collect::<Vec<_>>().join(", ");
                let said = format!("there is no tool {}: {names}", request.name);
                Err(ErrorData::invalid_params(said, None))
            }
        }
    }
}

/// An answer as text and as JSON, or a refusal.
fn result(answer: Result<Map<String, Value>, Refusal>) -> CallToolResult {
    match answer {
        Ok(answer) => CallToolResult::structured(Value::Object(answer)),
        Err(refusal) => CallToolResult::error(vec![ContentBlock::text(refusal.to_string())]),
    }
}
