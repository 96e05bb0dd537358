//! `tree`: the calls that own memory.

use gpumem_analyzer::ask::{Pivot, Wanted};
use gpumem_analyzer::symbols::Symbols;
use gpumem_analyzer::units::bytes;
use gpumem_analyzer::views::{Node, Select};
use gpumem_capture::DeviceOrdinal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::{facts, is_settled, lacking};
use crate::context::Context;
use crate::found::Found;
use crate::refusal::{Refusal, refused};
use crate::selection::{LevelName, Moment, OfName};

/// Frames that are shown at the end of a run without branches.
const RUN_ENDS: usize = 3;
/// The default of `least_percent`.
const LEAST: u64 = 1;

/// What the tree is of.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The calls that allocated
    #[default]
    Call,
    /// Modules of PyTorch's (torch.nn.Module), each with its parts
    Module,
}

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture, as captures names it
    capture: String,
    /// When: peak (default), end, oom (the failure), `step 3` (at its end), `event 12345`, or a time such as 1.5s
    #[serde(default)]
    at: Moment,
    /// Which level; by default tensors, or the driver's if there are no tensors
    #[serde(default)]
    level: Option<LevelName>,
    /// What the tree is of: call (default) or module
    #[serde(default)]
    by: By,
    /// Which bytes: live (default), allocated, temporary, kept or growing
    #[serde(default)]
    of: OfName,
    /// Only the GPU with this ordinal
    #[serde(default)]
    device: Option<u8>,
    /// Calls with less than this many percent are counted together (default 1)
    #[serde(default)]
    #[schemars(range(max = 100))]
    least_percent: Option<u64>,
    /// Also native frames where there are Python frames, as far as their names are in the capture
    #[serde(default)]
    native: bool,
}

/// The tree, depth first; each row has its depth.
///
/// # Errors
/// The capture cannot be read, or does not have the requested point in time.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    if args.least_percent > Some(100) {
        return Err(refused!("least_percent: expected a number from 0 to 100"));
    }
    let question = Pivot {
        of: args.of.into(),
        at: args.at.0,
        step: None,
        thread: None,
        wanted: Wanted {
            level: args.level.map(Into::into),
            select: Select {
                device: args.device.map(DeviceOrdinal),
                ..Select::default()
            },
            ..Wanted::default()
        },
    };
    let (session, stacks) = context.sessions.stacks(&capture, &question)?;
    let held = &stacks.by_stack;
    let root = match args.by {
        By::Module => Node::by_module(&session.replay, held),
        // Names come from the capture only, not from libraries of this machine.
        By::Call => Node::tree(&session.replay, &mut Symbols::embedded(), held, args.native),
    };
    let mut rows = Rows {
        least: u128::from(root.bytes) * u128::from(args.least_percent.unwrap_or(LEAST)),
        rows: Vec::new(),
    };
    rows.children(&root, 0);
    Ok(Found::settled(is_settled(&session))
        .with("capture", capture.name)
        .with("level", held.level.to_string())
        .with("at", stacks.when)
        .with_bytes("bytes", "size", root.bytes)
        .with("blocks", root.blocks)
        .with_any("lacking", lacking(&session, &question))
        .with("account", facts(&session))
        .with("total_rows", rows.rows.len())
        .with_rows(rows.rows))
}

struct Rows {
    /// The least bytes, times 100.
    least: u128,
    rows: Vec<Value>,
}

impl Rows {
    /// Adds one row for the node and the run of only children that it begins, then the callees of the run's end.
    fn node(&mut self, node: &Node, depth: usize) {
        let mut run = vec![node];
        let mut end = node;
        while let [child] = &end.children[..] {
            if end.own_bytes > 0 {
                break;
            }
            run.push(child);
            end = child;
        }
        let mut row = json!({"depth": depth, "bytes": end.bytes, "size": bytes(end.bytes), "blocks": end.blocks});
        row["calls"] = match run.len() {
            0..=4 => run.iter().map(|node| node.frame.as_str()).collect(),
            all => {
                let hidden = format!("… {} more", all - 1 - RUN_ENDS);
                let ends = run[all - RUN_ENDS..].iter().map(|node| node.frame.clone());
                [node.frame.clone(), hidden]
                    .into_iter()
                    .chain(ends)
                    .collect()
            }
        };
        if end.own_bytes > 0 && !end.children.is_empty() {
            row["own_bytes"] = end.own_bytes.into();
        }
        self.rows.push(row);
        self.children(end, depth + 1);
    }

    fn children(&mut self, node: &Node, depth: usize) {
        let enough = |child: &&Node| u128::from(child.bytes) * 100 >= self.least;
        let (shown, small): (Vec<&Node>, Vec<&Node>) = node.children.iter().partition(enough);
        for child in shown {
            self.node(child, depth);
        }
        if !small.is_empty() {
            let sum: u64 = small.iter().map(|child| child.bytes).sum();
            let blocks: u64 = small.iter().map(|child| child.blocks).sum();
            self.rows.push(json!({
                "depth": depth, "bytes": sum, "size": bytes(sum), "blocks": blocks, "smaller_calls": small.len(),
            }));
        }
    }
}
