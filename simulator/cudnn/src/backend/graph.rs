//! Engines for a graph of operations, and the workspace that a plan needs.
//!
//! Engine 0 requests the workspace of the model, engine 1 requests none. Heuristics return them in
//! this order, or only engine 0 if it requests none either. A program that cannot allocate the
//! workspace falls back to engine 1, as on a card.

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

/// The shape of a tensor. A frontend may leave the type to the graph; it then counts as float.
fn shape(tensor: &Finalized) -> Shape {
    let [kind, extents, strides] = TENSOR_ATTRIBUTES;
    Shape {
        kind: DataType(tensor.number32(kind).unwrap_or(0)),
        extents: tensor.numbers(extents),
        strides: tensor.numbers(strides),
    }
}

/// The total workspace that the graph's convolutions request.
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

/// Whether an engine that a caller created by its index exists for its graph; true for other kinds.
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

/// The configurations that heuristics return, best first.
///
/// # Errors
/// None for a finalized graph.
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

/// The workspace of a configuration, and whether it is the slow one without a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of workspace.
    pub workspace: u64,
    /// It replaces a configuration with a workspace.
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
