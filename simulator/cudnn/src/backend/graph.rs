//! Engines for a graph of operations, and the workspace that a plan needs.
//!
//! Engine 0 asks for what the model says, engine 1 for nothing. Heuristics give them in this order,
//! and only the first where it asks for nothing either: a program that cannot have the workspace
//! retreats to the second, as on a card.

use super::attribute::{
    CONVOLUTION_DATA, CONVOLUTION_FILTER, CONVOLUTION_FORWARD, ENGINE, ENGINECFG, Kind,
};
use super::descriptor::{Attributes, Finalized, Value};
use crate::shape::{DataType, Shape};
use crate::status::Done;
use crate::workspace::{Pass, convolution};
use std::sync::Arc;

/// `CUDNN_ATTR_OPERATIONGRAPH_OPS`.
const OPERATIONS: u32 = 801;
/// `CUDNN_ATTR_ENGINE_OPERATION_GRAPH`.
const ENGINE_GRAPH: u32 = 1300;
/// `CUDNN_ATTR_ENGINE_GLOBAL_INDEX`.
const ENGINE_INDEX: u32 = 1301;
/// `CUDNN_ATTR_ENGINECFG_ENGINE`.
const CONFIGURED_ENGINE: u32 = 300;
/// `CUDNN_ATTR_TENSOR_DATA_TYPE`, `_DIMENSIONS`, `_STRIDES`.
const TENSOR_ATTRIBUTES: [u32; 3] = [901, 902, 903];

/// A convolution's pass, and the attributes with its input, filter and output.
fn convolution_parts(kind: Kind) -> Option<(Pass, [u32; 3])> {
    match kind {
        CONVOLUTION_FORWARD => Some((Pass::Forward, [704, 703, 705])),
        CONVOLUTION_DATA => Some((Pass::Data, [710, 709, 711])),
        CONVOLUTION_FILTER => Some((Pass::Filter, [716, 715, 717])),
        _ => None,
    }
}

/// The shape of a tensor. Without a type it counts as float, which a frontend may leave to the graph.
fn shape(tensor: &Finalized) -> Shape {
    let [kind, extents, strides] = TENSOR_ATTRIBUTES;
    Shape {
        kind: DataType(tensor.number32(kind).unwrap_or(0)),
        extents: tensor.numbers(extents),
        strides: tensor.numbers(strides),
    }
}

/// What the graph's convolutions ask for together.
fn modelled(graph: &Finalized) -> u64 {
    let workspaces = graph.children(OPERATIONS).iter().map(|operation| {
        let Some((pass, parts)) = convolution_parts(operation.kind) else {
            return 0;
        };
        let [x, w, y] = parts.map(|part| operation.child(part).map(|tensor| shape(tensor)));
        match (x, w, y) {
            (Some(x), Some(w), Some(y)) => convolution(pass, &x, &w, &y),
            _ => 0,
        }
    });
    workspaces.fold(0, u64::saturating_add).min(i64::MAX as u64)
}

/// How many engines there are for a graph.
pub fn engines(graph: &Finalized) -> i64 {
    if modelled(graph) == 0 { 1 } else { 2 }
}

/// Whether an engine that a caller made by its number is one of its graph's; other kinds always are.
pub fn is_there(descriptor: &Finalized) -> bool {
    let Some(graph) = descriptor
        .child(ENGINE_GRAPH)
        .filter(|_| descriptor.kind == ENGINE)
    else {
        return true;
    };
    let index = descriptor.numbers(ENGINE_INDEX);
    index
        .iter()
        .all(|index| (0..engines(graph)).contains(index))
}

/// The configurations that heuristics find, best first.
///
/// # Errors
/// None that a finalized graph can cause.
pub fn configurations(graph: &Arc<Finalized>) -> Done<Vec<Arc<Finalized>>> {
    let configure = |index: i64| {
        let engine = Finalized::new(
            ENGINE,
            Attributes::from([
                (ENGINE_GRAPH, Value::Children(vec![Arc::clone(graph)])),
                (ENGINE_INDEX, Value::Plain(1, index.to_ne_bytes().to_vec())),
            ]),
        )?;
        let engine = Value::Children(vec![engine]);
        Finalized::new(ENGINECFG, Attributes::from([(CONFIGURED_ENGINE, engine)]))
    };
    (0..engines(graph)).map(configure).collect()
}

/// What a configuration asks for, and whether it is the slow one that does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of workspace.
    pub workspace: u64,
    /// It stands in for one with a workspace.
    pub is_retreat: bool,
}

/// The needs of a configuration.
pub fn needs(configuration: &Finalized) -> Needs {
    let engine = configuration.child(CONFIGURED_ENGINE);
    let graph = engine.and_then(|engine| engine.child(ENGINE_GRAPH));
    let modelled = graph.map_or(0, |graph| modelled(graph));
    let index = engine.and_then(|engine| engine.numbers(ENGINE_INDEX).first().copied());
    match index {
        Some(0) | None => Needs {
            workspace: modelled,
            is_retreat: false,
        },
        Some(_) => Needs {
            workspace: 0,
            is_retreat: modelled > 0,
        },
    }
}
