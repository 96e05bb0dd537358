//! RNN descriptors.

use crate::dropout::DROPOUTS;
use crate::objects::Objects;
use crate::shape::DataType;
use crate::status::{Done, Status, require, status};
use gpumem_sim_client::ffi::Handle;

/// `cudnnRNNMode_t`; both kinds of plain cell are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cell {
    /// `CUDNN_RNN_RELU`, `CUDNN_RNN_TANH`.
    #[default]
    Plain,
    /// `CUDNN_LSTM`.
    Lstm,
    /// `CUDNN_GRU`.
    Gru,
}

impl Cell {
    /// The number of matrices that a cell has for its input. It has as many for its previous
    /// output.
    pub fn gates(self) -> u64 {
        match self {
            Self::Plain => 1,
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }
}

/// An RNN. A descriptor without layers has not been set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rnn {
    pub cell: Cell,
    /// `cudnnRNNBiasMode_t`: 0 none, 1 of the input, 2 both, 3 of the previous output.
    pub bias: u32,
    /// 1 or 2.
    pub directions: u64,
    /// The first layer uses its input without a matrix.
    pub skips_input: bool,
    pub kind: DataType,
    pub input: u64,
    pub hidden: u64,
    /// Size of a layer's output: `hidden`, or less with a projection.
    pub output: u64,
    pub layers: u64,
    /// Whether outputs of layers pass through dropout.
    pub drops: bool,
}

impl Rnn {
    /// Whether outputs are projected.
    pub fn projects(&self) -> bool {
        self.output != self.hidden
    }

    /// Bytes of the elements, saturating.
    pub fn bytes(&self, elements: u128) -> u64 {
        self.kind.bytes(elements)
    }
}

/// All RNNs.
pub static RNNS: Objects<Rnn> = Objects::new();

/// An RNN that was set.
///
/// # Errors
/// `BAD_PARAM` if the handle is unknown or the descriptor has not been set.
pub fn get(descriptor: Handle) -> Done<Rnn> {
    let rnn = RNNS.get(descriptor)?;
    require(rnn.layers > 0, Status::BAD_PARAM)?;
    Ok(rnn)
}

/// `cudnnSetRNNDescriptor_v8`.
#[allow(clippy::too_many_arguments)]
pub fn set(
    descriptor: Handle,
    algorithm: u32,
    mode: u32,
    bias: u32,
    direction: u32,
    input_mode: u32,
    kind: u32,
    _precision: u32,
    _math: u32,
    input: i32,
    hidden: i32,
    projection: i32,
    layers: i32,
    dropout: Handle,
    _flags: u32,
) -> Status {
    let size = |given: i32| {
        let size = u64::try_from(given).ok().filter(|size| *size > 0);
        size.ok_or(Status::BAD_PARAM)
    };
    let set = || -> Done {
        let cell = match mode {
            0 | 1 => Cell::Plain,
            2 => Cell::Lstm,
            3 => Cell::Gru,
            _ => return Err(Status::BAD_PARAM),
        };
        let known = algorithm <= 3 && bias <= 3 && direction <= 1 && input_mode <= 1;
        require(known && DataType(kind).is_floating(), Status::BAD_PARAM)?;
        let (hidden, output) = (size(hidden)?, size(projection)?);
        require(output <= hidden, Status::NOT_SUPPORTED)?;
        let drops = match dropout {
            0 => false,
            _ => DROPOUTS.get(dropout)? > 0.0,
        };
        let rnn = Rnn {
            cell,
            bias,
            directions: u64::from(direction) + 1,
            skips_input: input_mode == 1,
            kind: DataType(kind),
            input: size(input)?,
            hidden,
            output,
            layers: size(layers)?,
            drops,
        };
        let projects = rnn.projects();
        require(!projects || cell == Cell::Lstm, Status::NOT_SUPPORTED)?;
        RNNS.set(descriptor, rnn)
    };
    status(set())
}
